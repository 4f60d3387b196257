/** A whole gateway in this process, on a database and an engine of the test, with its listeners on free ports. */
import { Registry } from 'prom-client';
import { openGateway, type RunningGateway } from '../../../cmd/node/gateway.ts';
import { start, stop, stopped } from '../../../supervision/index.ts';
import { certificateContext } from '../../../transports/gateway/tls/front.ts';
import { generateKeyPair } from '../../../transports/ssh/keys.ts';
import { silentLog } from '../log.ts';
import type { Cleanup } from '../temp.ts';
import { certificates } from './listeners.ts';

type GatewayOptions = Parameters<typeof openGateway>[0];

/** Starts a gateway of `cloud.test`, which ends with `t`. `options.system`, when it is given, ends after it. */
export async function startGateway(
  t: Cleanup,
  options: Pick<GatewayOptions, 'db' | 'engine'> & Partial<GatewayOptions>,
): Promise<RunningGateway & { end(): Promise<void> }> {
  const { own } = await certificates();
  const { privateKey } = generateKeyPair('test');
  const system = options.system ?? start({ name: 'gateway', log: silentLog, freezeMessages: true });
  const gateway = await openGateway({
    system,
    log: silentLog,
    domain: 'cloud.test',
    containersDomain: 'compute.cloud.test',
    host: '127.0.0.1',
    ports: { http: 0, https: 0, ssh: 0 },
    certificate: { context: certificateContext(own), authorityFile: 'ca.pem' },
    environment: { HSTS: 'auto' },
    sshKeys: { host: [privateKey], platform: privateKey },
    fileRoutes: [],
    fallback: undefined,
    accessLog: undefined,
    proxies: undefined,
    isCaching: false,
    processRegistry: new Registry(),
    jwtSecret: 'a secret of the gateway of a test',
    sharedClock: { now: Date.now, isShared: true },
    busProblem: () => undefined,
    ...options,
  });
  let ending: Promise<void> | undefined;
  const end = async () => {
    await gateway.stop(0);
    stop(system);
    await stopped(system);
  };
  const endOnce = () => (ending ??= end());
  t.after(endOnce);
  return { ...gateway, end: endOnce };
}
