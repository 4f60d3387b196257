/** The platform of `troupe up`, which is loaded while its database starts. */
import { join } from 'node:path';
import type { Log } from '../../proto/ports/log.ts';
import type { DbConnection } from '../../storage/db.ts';
import { dockerEngine } from '../../transports/engines/docker/engine.ts';
import { dockerMetrics } from '../../transports/engines/docker/stats/metrics.ts';
import type { FrontProxies } from '../../transports/gateway/listeners.ts';
import { keepCertificate, type LiveCertificate } from '../../transports/gateway/tls/live-certificate.ts';
import { type Environment, type Ports, registryPort } from '../config/config.ts';
import type { Secrets } from '../config/data-dir.ts';
import type { GatewayFlags } from '../config/gateway-options.ts';
import { certificateOf } from '../node/gateway.ts';
import { openKubernetes, openKubernetesMetrics } from '../node/kubernetes.ts';
import { type Platform, startPlatform } from '../node/platform.ts';
import type { PlatformOptions } from '../node/platform-core.ts';
import { registryBeside } from '../node/registry/beside.ts';
import { whyNoRegistry } from '../node/registry/choice.ts';
import { holdersOver } from '../node/registry/holders.ts';
import { pinnedImages } from '../node/registry/pinned.ts';
import { registryProgram } from '../node/registry/process.ts';
import { type OwnRegistry, openOwnRegistry } from '../node/registry/registry.ts';
import { diskPathsOf, nodeName } from '../node/roles/monitor.ts';
import type { Teardown } from '../node/shutdown.ts';
import { chooseWires } from '../node/wires.ts';
import { plainLines } from '../observability/log.ts';

interface PlatformParts {
  readonly options: GatewayFlags & { readonly listen: string; readonly portOffset: number };
  readonly environment: Environment;
  readonly secrets: Secrets;
  readonly dataDir: string;
  /** Undefined where containers run on Kubernetes. */
  readonly dockerHost: string | undefined;
  readonly domains: { readonly domain: string; readonly containers: string };
  readonly ports: Ports;
  readonly proxies: FrontProxies | undefined;
  /** Of the database server, which runs. */
  readonly connection: DbConnection;
  readonly log: Log;
  readonly onProgress: (line: string) => void;
  readonly isLeaving: () => boolean;
  readonly onMetrics: NonNullable<PlatformOptions['onMetrics']>;
  readonly teardown: Teardown;
}

/** Starts it, with the image registry that comes along; `teardown` ends both. */
export async function openPlatform({
  options,
  environment,
  dockerHost,
  dataDir,
  domains,
  log,
  onProgress,
  connection,
  teardown,
  ...more
}: PlatformParts): Promise<{ readonly platform: Platform; readonly certificate: LiveCertificate }> {
  const { domain } = domains;
  await chooseWires(environment, log);
  const parts = { environment, dockerHost, dataDir, domain, log, onProgress };
  const own = await registryFor(options.portOffset, parts, connection, teardown);
  const registry = own ?? registryBeside(environment, domain, log);
  const certificate = await keepCertificate(() => certificateOf(options, dataDir, domains, log), log);
  teardown.add('certificate', async () => certificate.close());
  const platform = await startPlatform({
    environment: registry?.environment ?? environment,
    registry,
    secrets: more.secrets,
    database: connection,
    nodeFile: join(dataDir, 'node-id'),
    engine: (installation, pullAuth) =>
      dockerHost === undefined
        ? openKubernetes(environment, { installation, log, onProgress, pullAuth })
        : dockerEngine({
            host: dockerHost,
            installation,
            log,
            egressAllow: environment.EGRESS_ALLOW,
            registry: own,
            ...(environment.CONTAINER_SUBNETS === undefined ? {} : { subnetPool: environment.CONTAINER_SUBNETS }),
          }),
    onMetrics: more.onMetrics,
    diskPaths: await diskPathsOf({ environment, dataDir, dockerHost }),
    metrics: (installation) =>
      dockerHost === undefined
        ? openKubernetesMetrics(environment, { installation, log })
        : dockerMetrics({ host: dockerHost, installation, node: nodeName(), log }),
    domain,
    host: options.listen,
    ports: more.ports,
    certificate,
    proxies: more.proxies,
    accessLog: options.accessLog ? plainLines() : undefined,
    isCaching: options.cache,
    log,
    isLeaving: more.isLeaving,
    onProgress,
  });
  teardown.add('platform', () => platform.stop());
  return { platform, certificate };
}

type RegistryParts = Omit<Parameters<typeof openOwnRegistry>[0], 'port' | 'pinned' | 'holds' | 'limitMb'>;

/** The registry that comes along; undefined where there is to be none, or its program is not there. */
async function registryFor(
  portOffset: number,
  { dockerHost, ...parts }: RegistryParts & { readonly dockerHost: string | undefined },
  connection: DbConnection,
  teardown: Teardown,
): Promise<OwnRegistry | undefined> {
  if (whyNoRegistry(parts.environment, dockerHost) !== undefined) return undefined;
  if (registryProgram() === undefined) {
    const how = 'apt-get install docker-registry, or troupe up --install';
    parts.onProgress(`no image registry is run: docker-registry is not installed (${how})`);
    return undefined;
  }
  const { environment, log } = parts;
  const { holds, limitMb, close } = holdersOver(connection, log);
  teardown.add('database of the image registry', close);
  const pinned = () => pinnedImages(connection, environment, log);
  const registry = await openOwnRegistry({ ...parts, port: registryPort(portOffset), pinned, holds, limitMb });
  teardown.add('image registry', () => registry.close());
  return registry;
}
