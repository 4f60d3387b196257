/** `troupe compute`: the compute service alone. */
import { type PullAuth, pullAuth } from '../../actors/auth/registry/pull-credential.ts';
import { startCompute } from '../../actors/compute/service.ts';
import { sshElseEngine } from '../../actors/compute/terminal/shells.ts';
import { NOTIFICATIONS_STREAM } from '../../proto/notify/notification.ts';
import type { Engine } from '../../proto/ports/engine.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { Service } from '../../proto/service.ts';
import { parseSealKey } from '../../storage/seal.ts';
import { dockerEngine } from '../../transports/engines/docker/engine.ts';
import { findDocker } from '../../transports/engines/docker/host/dockerd.ts';
import { sshShells } from '../../transports/ssh/shells.ts';
import { CliError } from '../config/cli-error.ts';
import type { Environment } from '../config/config.ts';
import { platformKeys } from '../config/platform-keys.ts';
import { openKubernetes } from './kubernetes.ts';
import { registryOf } from './registry-of.ts';
import { partsOfRegistry } from './registry-parts.ts';
import { type AloneOptions, type AloneParts, runAlone } from './run-alone.ts';
import { notedSshAddress } from './ssh-address.ts';

/** Runs until it is told to stop. */
export function runCompute(options: AloneOptions): Promise<void> {
  return runAlone({ name: 'compute', title: 'compute', needs: ['NATS_URL', 'ENCRYPTION_KEY'], open }, options);
}

async function open(parts: AloneParts): Promise<Service> {
  const { environment, domain, db, bus, home, log, clock, jwtSecret, streams, atEnd } = parts;
  const { ENCRYPTION_KEY = '', REGISTRY_HOST: registryHost } = environment;
  const { installation, keys } = await platformKeys(db, parseSealKey(ENCRYPTION_KEY));
  const pulls = pullAuth({ db, clock, jwtSecret }, registryHost);
  const engine = await engineOf(environment, installation, log, pulls);
  atEnd('engine', () => engine.close());
  await bus.ensureStream(NOTIFICATIONS_STREAM);
  const dial = engine.dial.bind(engine);
  const ssh = sshShells({ dial, privateKey: async () => keys.privateKey, username: 'root', log });
  const registry = await registryOf(environment, db);
  const credentials = { jwtSecret, adminUsername: environment.ADMIN_USERNAME, registry };
  return startCompute(parts.system, {
    db,
    home,
    engine,
    shells: sshElseEngine(ssh, engine, log),
    tokens: streams,
    log,
    clock,
    domain,
    registryHost,
    ...partsOfRegistry({ db, clock, ...credentials }, registryHost),
    defaultImage: environment.DEFAULT_IMAGE ?? engine.baseImage,
    platformKey: keys.publicKey,
    sshAddress: await notedSshAddress(db, clock, log),
  });
}

/** The engine of COMPUTE_ENGINE. All compute services on a database share one. */
async function engineOf(
  environment: Environment,
  installation: string,
  log: Log,
  pulls: PullAuth | undefined,
): Promise<Engine> {
  const { COMPUTE_ENGINE, CONTAINER_SUBNETS: subnetPool, EGRESS_ALLOW: egressAllow } = environment;
  if (COMPUTE_ENGINE === 'kubernetes')
    return openKubernetes(environment, {
      installation,
      log,
      pullAuth: pulls,
      onProgress: (line) => log.info({}, line),
    });
  const host = await findDocker(environment);
  if (host === undefined)
    throw new CliError('No Docker Engine answers: name the one that all compute services share in DOCKER_HOST.');
  return dockerEngine({ host, installation, log, egressAllow, ...(subnetPool === undefined ? {} : { subnetPool }) });
}
