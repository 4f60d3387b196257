import { listenPlain } from '../../../transports/gateway/plain-listener.ts';
import type { Cleanup } from '../temp.ts';

type Listening = Parameters<typeof listenPlain>[0];

/** The port of this machine at which a registry front listens. Both end when `t` does. */
export async function portBefore(
  t: Cleanup,
  front: Listening['decider'] & { close(): Promise<void> | void },
): Promise<number> {
  t.after(() => front.close());
  const listening: Listening = {
    host: '127.0.0.1',
    port: 0,
    decider: front,
    isTrusted: () => true,
    onAccess: () => {},
  };
  const listener = await listenPlain(listening);
  t.after(() => listener.close(0));
  return listener.port;
}
