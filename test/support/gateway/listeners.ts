/** The gateway's listeners on free ports, with certificates of an authority of the test's own. */
import { once } from 'node:events';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import type { GatewayDecider, LongConnection } from '../../../proto/gateway/gateway-decider.ts';
import type { AccessEntry, ProxyRequest } from '../../../proto/gateway/traffic.ts';
import { type GatewayListenerOptions, GatewayListeners } from '../../../transports/gateway/listeners.ts';
import { certificateContext } from '../../../transports/gateway/tls/front.ts';
import { issueCertificate, makeAuthority } from '../../../transports/gateway/tls/local-ca.ts';
import type { Pem } from '../../../transports/gateway/tls/pem.ts';
import { type Cleanup, freePort } from '../temp.ts';
import { until } from '../until.ts';

export const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => quiet };

let made: Promise<{ authority: Pem; own: Pem; other: Pem }> | undefined;

/** An authority, a wildcard certificate for `*.cloud.test`, and one for `other.test`. */
export function certificates() {
  made ??= (async () => {
    const authority = await makeAuthority('Troupe (test)', Date.now());
    const issue = (...names: string[]) => issueCertificate(authority, names, Date.now());
    return { authority, own: await issue('cloud.test', '*.cloud.test'), other: await issue('other.test') };
  })();
  return made;
}

export interface TestListeners {
  readonly leaveOrigin: (address: string) => void;
  readonly ports: { readonly http: number; readonly https: number; readonly ingress: number };
  readonly log: AccessEntry[];
  readonly long: LongConnection[];
  readonly asked: ProxyRequest[];
  readonly authority: Pem;
  /** What a client may resume with. */
  sessionOf(socket: TLSSocket): Promise<Buffer>;
  /** TLS to a port, by a name. */
  dial(port: number, servername: string, options?: ConnectionOptions): Promise<TLSSocket>;
}

/** Opens them. Every request goes to `origin`; names below cloud.test and other.test end here, `passed.test` is passed to `origin`. */
export async function openListeners(
  t: Cleanup,
  origin: number,
  options: Partial<
    Pick<GatewayListenerOptions, 'limits' | 'timeouts' | 'firstBytesMs' | 'proxies' | 'leaveMs'> &
      Pick<GatewayDecider, 'decide'>
  > = {},
): Promise<TestListeners> {
  const { authority, own, other } = await certificates();
  const contexts = { own: certificateContext(own), other: certificateContext(other) };
  const log: AccessEntry[] = [];
  const long: LongConnection[] = [];
  const asked: ProxyRequest[] = [];
  const forward: GatewayDecider['decide'] = ({ target }) => ({ forward: { host: '127.0.0.1', port: origin }, target });
  const sessions = new WeakMap<TLSSocket, Buffer>();
  const listeners = await GatewayListeners.open({
    host: '127.0.0.1',
    ports: { http: 0, https: 0, ssh: 0 },
    // Nobody speaks SSH here.
    ssh: { serve: (socket) => void socket.destroy(), close: async () => {} },
    log: quiet,
    onAccess: (entry) => log.push(entry),
    decider: {
      decide: (request) => {
        asked.push(request);
        return (options.decide ?? forward)(request);
      },
      decideName: (name) => {
        if (name === 'passed.test') return { passTo: { host: '127.0.0.1', port: origin }, containerId: 'passed' };
        if (name === 'other.test') return 'mapped';
        return name?.endsWith('cloud.test') ? 'platform' : 'refuse';
      },
      adopt: (connection) => {
        long.push(connection);
        return () => {};
      },
      clients: { add: () => {}, remove: () => {} },
    },
    certificates: {
      platform: { context: contexts.own },
      mapped: { certificate: () => ({ end: contexts.other }), challenge: async () => ({ refuse: true }) },
    },
    ...options,
  });
  t.after(() => listeners.close(0));
  const ingress = await freePort();
  await listeners.listenOn(new Set([ingress]));
  return {
    ports: { ...listeners.ports, ingress },
    leaveOrigin: (address) => listeners.leaveOrigin(address),
    log,
    long,
    asked,
    authority,
    sessionOf: (socket) => until(() => sessions.get(socket), { what: 'a session to resume' }),
    dial: async (port, servername, more = {}) => {
      const socket = connect({ host: '127.0.0.1', port, servername, ca: authority.cert, ...more });
      t.after(() => void socket.destroy());
      socket.on('session', (session: Buffer) => sessions.set(socket, session));
      await once(socket, 'secureConnect');
      socket.on('error', () => {});
      return socket;
    },
  };
}

/** Sends text over a socket and waits until what came back matches. */
export async function says(socket: TLSSocket, text: string, pattern: RegExp): Promise<string> {
  let heard = '';
  const onData = (chunk: Buffer) => {
    heard += chunk.toString('latin1');
  };
  socket.on('data', onData);
  socket.write(text, 'latin1');
  await until(() => pattern.test(heard), { what: `${pattern} in ${JSON.stringify(heard)}` });
  socket.off('data', onData);
  return heard;
}
