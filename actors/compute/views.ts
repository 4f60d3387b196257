/** What users see of rows. */

import { shownEgress } from '../../proto/compute/egress.ts';
import type { ContainerCreatedView, ContainerView } from '../../proto/compute/fields.ts';
import type { AdminContainerView } from '../../proto/compute/images.ts';
import { sshCommand } from '../../proto/gateway/ssh.ts';
import type { ContainerRow, OwnedContainerRow } from '../../storage/compute/containers.ts';
import type { ContainerSettings } from '../../storage/compute/settings.ts';
import type { SshKeyRow } from '../../storage/compute/ssh-keys.ts';
import { hasSuccessor } from './container/rules.ts';
import type { ComputeDeps } from './deps.ts';
import { digestIn, shownImage } from './image-rules.ts';

/** What a view is made with. */
type ViewDeps = Pick<ComputeDeps, 'containersDomain' | 'engine' | 'sshAddress' | 'defaultImage'>;

/** `<container_id>.compute.{platform_domain}`, unless the operator gave containers a domain of their own. */
export function hostnameOf(id: string, containersDomain: string): string {
  return `${id}.${containersDomain}`;
}

/** The container as create, start and stop answer it. */
export function createdView(row: ContainerRow, containersDomain: string): ContainerCreatedView {
  return {
    id: row.id,
    name: row.name,
    status: row.status,
    hostname: hostnameOf(row.id, containersDomain),
    memory_mb: row.memoryMb,
    storage_gb: row.storageGb,
    instance_type: row.instanceType,
    created_at: row.createdAt.toISOString(),
    ssh_enabled: row.sshEnabled,
    https_enabled: row.httpsEnabled,
    pull_policy: row.pullPolicy,
  };
}

/**
 * The container as list and get answer it: memory in MiB, storage in GiB with two digits, how it was made, how its last
 * run went, and why it failed.
 */
export function containerView(row: ContainerRow, deps: ViewDeps): ContainerView {
  const { containersDomain, engine, sshAddress } = deps;
  const usage = engine.usage(row.id);
  const reason = row.statusReason ?? (row.status === 'running' ? row.givenUp : null);
  const digest = digestIn(row.image);
  const at = row.sshEnabled ? sshAddress?.() : undefined;
  return {
    ...createdView(row, containersDomain),
    ...usageView(row.status === 'running' ? usage : { ...usage, memoryBytes: 0 }),
    ssh_command: `ssh root@${hostnameOf(row.id, containersDomain)}`,
    ...(at === undefined ? {} : { ssh: { command: sshCommand(row.id, at), ...at, user: row.id } }),
    image: shownImage(row, deps),
    ...(digest === undefined ? {} : { image_digest: digest }),
    ...(row.nextImage === undefined ? {} : { next_image: shownImage({ image: row.nextImage }, deps) }),
    ssh_key_ids: row.sshKeyIds,
    mount_paths: row.mountPaths,
    changes_without_pause: hasSuccessor(row, engine),
    ...(row.overlap ? { overlap: true } : {}),
    ports: row.ports,
    ...(row.expiresAt === null ? {} : { expires_at: row.expiresAt.toISOString() }),
    ...(row.addressName === null ? {} : { address_name: row.addressName }),
    ...(row.egress === null ? {} : { egress: shownEgress(row.egress) }),
    ...(row.network === undefined ? {} : { network: row.network.name }),
    ...(row.network?.alias ? { alias: row.network.alias } : {}),
    ...(row.startedAt === null ? {} : { started_at: row.startedAt.toISOString() }),
    ...(row.endedAt === null ? {} : { ended_at: row.endedAt.toISOString() }),
    ...(row.exitCode === null ? {} : { exit_code: row.exitCode }),
    restarts: row.restarts,
    ...(reason === null ? {} : { status_reason: reason }),
    health: healthOf(row),
    ...(row.healthReason === null || row.status !== 'running' ? {} : { health_reason: row.healthReason }),
  };
}

/** What is known of its health; null: nothing is looked at, or it is not to run. */
function healthOf({ status, healthState }: Pick<ContainerRow, 'status' | 'healthState'>): ContainerRow['healthState'] {
  return status === 'stopped' || status === 'failed' ? null : healthState;
}

/** How its workload is run, as its owner sees it: of secrets the names. */
export function settingsView(
  { env, secrets, command, entrypoint, workingDir, release, health }: ContainerSettings,
  { stopGrace, restartPolicy }: Pick<ContainerRow, 'stopGrace' | 'restartPolicy'>,
) {
  return {
    env,
    secrets: Object.keys(secrets).sort(),
    command,
    entrypoint,
    working_dir: workingDir,
    ...(release === null ? {} : { release }),
    stop_grace: stopGrace,
    restart: restartPolicy,
    health,
  };
}

/** What a container uses: memory in MiB, storage in GiB with two digits. */
export function usageView({ memoryBytes, storageBytes }: ReturnType<ComputeDeps['engine']['usage']>) {
  return {
    memory_used_mb: Math.round(memoryBytes / 2 ** 20),
    storage_used_gb: Math.round((storageBytes / 2 ** 30) * 100) / 100,
  };
}

/** The container as the administrator sees it. */
export function adminView(row: OwnedContainerRow, deps: ViewDeps): AdminContainerView {
  return {
    ...containerView(row, deps),
    created_at: Math.floor(row.createdAt.getTime() / 1000),
    user_id: row.userId,
    owner: row.owner,
    external_ip: externalIp(row),
  };
}

/** Where the outside reaches a container; empty while it is nowhere. */
export function externalIp(row: Pick<ContainerRow, 'address' | 'externalAddress'>): string {
  return row.externalAddress ?? row.address ?? '';
}

/** An SSH key. */
export function keyView(row: SshKeyRow) {
  return {
    id: row.id,
    name: row.name,
    public_key: row.publicKey,
    created_at: row.createdAt.toISOString(),
    login: row.isLogin,
  };
}
