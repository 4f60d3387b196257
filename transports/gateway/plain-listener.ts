/** A listener of plain HTTP alone, with the data path of the gateway: for a process before one origin. */
import type { GatewayDecider } from '../../proto/gateway/gateway-decider.ts';
import type { AccessEntry } from '../../proto/gateway/traffic.ts';
import type { IsTrusted } from '../wire/peer-address.ts';
import { HttpProxy } from './h1/server.ts';
import { Upstreams } from './h1/upstreams.ts';
import { Admission } from './tcp/admission.ts';
import { listenWires } from './tcp/listen.ts';

interface PlainListenerOptions {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly decider: Pick<GatewayDecider, 'decide'>;
  /** Peers that stand for many clients: they have no limit of their own, and are believed for whom they ask. */
  readonly isTrusted: IsTrusted;
  readonly onAccess: (entry: AccessEntry) => void;
}

/** One that listens. */
interface PlainListener {
  readonly port: number;
  /** Takes no more connections, and lets answers under way finish, at most `graceMs`. */
  close(graceMs: number): Promise<void>;
}

/** Opens it. Rejects when the port is taken. */
export async function listenPlain(options: PlainListenerOptions): Promise<PlainListener> {
  const { host, port, decider, isTrusted, onAccess } = options;
  const upstreams = new Upstreams();
  const proxy = new HttpProxy({
    decider,
    upstreams,
    isTrusted,
    onAccess,
    // The origin speaks nothing but HTTP.
    onSwitch: (client, origin) => {
      client.destroy();
      origin.destroy();
    },
  });
  const listener = await listenWires(host, port, new Admission({}, isTrusted), (wire, address) =>
    proxy.serveWire(wire, listener.port, address),
  );
  return {
    port: listener.port,
    close: async (graceMs) => {
      const closing = listener.close();
      await proxy.close(graceMs);
      upstreams.close();
      await closing;
    },
  };
}
