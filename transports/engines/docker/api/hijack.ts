import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { EngineError } from '../../../../proto/ports/engine.ts';
import { toEngineError } from '../../common/errors.ts';
import type { DockerWay } from './way.ts';

/** One request that asks for its connection to become a stream (Engine API, "Hijacking"). */
interface HijackRequest {
  /** Path with its query. */
  readonly path: string;
  /** Sent as JSON. */
  readonly body: unknown;
  readonly headTimeoutMs: number;
}

/** The connection with what came behind the answer's head, or the answer when Docker refused. */
type Hijacked = { readonly socket: Duplex } | { readonly refusal: IncomingMessage };

/** Sends it on a connection of its own. Rejects EngineError `unavailable`; the socket comes without listeners. */
export async function hijack(way: DockerWay, out: HijackRequest): Promise<Hijacked> {
  const request = await way.open();
  return new Promise((resolve, reject) => {
    const body = Buffer.from(JSON.stringify(out.body), 'utf8');
    const headers = {
      host: 'docker',
      'content-type': 'application/json',
      'content-length': body.length,
      connection: 'Upgrade',
      upgrade: 'tcp',
    };
    const sent = request({ method: 'POST', path: out.path, headers }, true);
    const fail = (error: unknown): void => {
      clearTimeout(timer);
      sent.destroy();
      reject(toEngineError(error));
    };
    const timer = setTimeout(() => {
      fail(new EngineError('unavailable', `The container engine did not answer within ${out.headTimeoutMs} ms.`));
    }, out.headTimeoutMs);
    // Stays attached: destroying the request makes it emit an error.
    sent.on('error', fail);
    sent.once('upgrade', (_response, socket, head) => {
      clearTimeout(timer);
      if (head.length > 0) socket.unshift(head);
      resolve({ socket });
    });
    sent.once('response', (refusal) => {
      clearTimeout(timer);
      resolve({ refusal });
    });
    sent.end(body);
  });
}
