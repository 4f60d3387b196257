/** `troupe compute`: the compute service alone. */
import type { KeyObject } from 'node:crypto';
import { hashPassword } from '../../../actors/auth/login/passwords.ts';
import { type PullAuth, pullAuth } from '../../../actors/auth/registry/pull-credential.ts';
import { registryRights } from '../../../actors/auth/registry/registry-rights.ts';
import type { ComputeDeps } from '../../../actors/compute/deps.ts';
import { startCompute } from '../../../actors/compute/service.ts';
import { sshElseEngine } from '../../../actors/compute/terminal/shells.ts';
import type { Placement } from '../../../actors/service/placement.ts';
import type { Service } from '../../../proto/endpoint.ts';
import { AccessProofs } from '../../../proto/gateway/port-guard.ts';
import { NOTIFICATIONS_STREAM } from '../../../proto/notify/notification.ts';
import type { Engine } from '../../../proto/ports/engine.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { notedGateway, type SshAddress } from '../../../storage/gateway/gateway-address.ts';
import { parseSealKey } from '../../../storage/seal.ts';
import { registryCatalog } from '../../../transports/clients/registry/catalog.ts';
import { keptCommands } from '../../../transports/engines/common/kept-commands.ts';
import { dockerEngine } from '../../../transports/engines/docker/engine.ts';
import { findDocker } from '../../../transports/engines/docker/host/find-docker.ts';
import { sshShells } from '../../../transports/ssh/shells.ts';
import { CliError } from '../../config/cli-error.ts';
import type { Environment } from '../../config/config.ts';
import { containersDomain } from '../../config/containers-domain.ts';
import { platformKeys } from '../../config/platform-keys.ts';
import { userLimitsOf } from '../../config/user-limits.ts';
import { openKubernetes } from '../kubernetes.ts';
import { placementOf, type Role, type RoleParts, registryOf } from './role.ts';

export const COMPUTE: Role = {
  name: 'compute',
  title: 'The compute service',
  logName: 'compute',
  needs: ['NATS_URL', 'ENCRYPTION_KEY'],
  holds: 'entities',
  open: async (parts) => {
    const { environment, db, log, clock, jwtSecret } = parts;
    const sealKey = parseSealKey(environment.ENCRYPTION_KEY ?? '');
    const { installation, keys } = await platformKeys(db, sealKey);
    const pulls = pullAuth({ db, clock, jwtSecret }, environment.REGISTRY_HOST);
    const engine = await engineOf(environment, installation, log, pulls);
    parts.atEnd('engine', () => engine.close());
    const gateway = await notedGateway(db, clock, log);
    const besides = { engine, keys, sealKey, sshAddress: () => gateway()?.ssh, takenPorts: [] };
    return { service: await openCompute(parts, placementOf(parts), besides) };
  },
};

/** What the compute service needs besides. */
interface ComputeParts {
  readonly engine: Engine;
  readonly keys: Awaited<ReturnType<typeof platformKeys>>['keys'];
  /** ENCRYPTION_KEY. */
  readonly sealKey: KeyObject;
  /** Where containers are reached by SSH; undefined while that is not known. */
  readonly sshAddress: () => SshAddress | undefined;
  /** Ports on which the platform itself listens. */
  readonly takenPorts: readonly number[];
  /** Where the registry of `up` is asked; undefined: at REGISTRY_HOST. */
  readonly registryAddress?: string | undefined;
}

/**
 * Starts the compute service on an engine, whose owner ends it. `overrides`: what takes the place of the usual parts.
 */
export async function openCompute(
  parts: RoleParts,
  placement: Placement,
  besides: ComputeParts,
  overrides: Partial<ComputeDeps> = {},
): Promise<Service> {
  const { environment, domain, db, bus, log, clock, jwtSecret, streams } = parts;
  const { engine, keys, sealKey, sshAddress, takenPorts, registryAddress } = besides;
  await bus.ensureStream(NOTIFICATIONS_STREAM);
  const dial = engine.dial.bind(engine);
  const ssh = sshShells({ dial, privateKey: async () => keys.privateKey, username: 'root', log });
  const registryHost = environment.REGISTRY_HOST;
  const registry = await registryOf(environment, db);
  const credentials = { jwtSecret, adminUsername: environment.ADMIN_USERNAME, registry };
  return startCompute(parts.system, {
    db,
    placement,
    engine,
    shells: sshElseEngine(ssh, engine, log),
    commands: keptCommands(engine),
    tokens: streams,
    log,
    clock,
    containersDomain: containersDomain(environment, domain),
    registryHost,
    ...partsOfRegistry({ db, clock, ...credentials }, registryHost, registryAddress),
    defaultImage: environment.DEFAULT_IMAGE ?? engine.baseImage,
    platformKey: keys.publicKey,
    sealKey,
    passwords: { hash: hashPassword },
    accessProofs: new AccessProofs(jwtSecret),
    sshAddress,
    takenPorts,
    filesMaxMb: environment.FILES_MAX_MB,
    userLimits: userLimitsOf(environment),
    ...overrides,
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

/** Rights to pull with, and the list of what there is; nothing without a registry. */
function partsOfRegistry(
  deps: Parameters<typeof registryRights>[0],
  host: string | undefined,
  address: string | undefined,
) {
  if (host === undefined) return {};
  const { auth, mayPull, open, ownToken } = registryRights(deps, host);
  return { registryAuth: auth, catalog: registryCatalog({ host, address, token: ownToken, open }), mayPull };
}
