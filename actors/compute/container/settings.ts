/** What can be changed about a container after its creation: SSH access, mounts, pull policy. */

import { MAX_MOUNT_CHANGES } from '../../../proto/compute/endpoints.ts';
import { getMounts, getSsh, setMounts, setPullPolicy, setSsh } from '../../../proto/compute/settings.ts';
import type { Call } from '../../../proto/endpoint.ts';
import { Refusal } from '../../../proto/errors.ts';
import { audit } from '../../../storage/audit.ts';
import { setPullPolicy as setPolicy } from '../../../storage/compute/changes.ts';
import { type ContainerRow, setMountPaths, setSshEnabled } from '../../../storage/compute/containers.ts';
import { tellCompute } from '../../../storage/compute/news.ts';
import type { Tx } from '../../../storage/db.ts';
import { fenced } from '../../../storage/fenced.ts';
import { auditEntry } from '../../service/audit.ts';
import { found, type Handler, handler } from '../../service/dispatch.ts';
import type { ComputeDeps } from '../deps.ts';
import type { ContainerReconciler } from './reconciler.ts';
import { type ActiveContainer, ownedRow } from './state.ts';

/** Between two restarts of one container by other mount paths: each copies its files. */
const MOUNTS_PAUSE_MS = 10_000;

/**
 * The handlers. What was asked for and is so already changes nothing, except that mounts set anew restart what runs.
 */
export function settingsHandlers(
  deps: ComputeDeps,
  reconciler: Pick<ContainerReconciler, 'onSettingsChanged'>,
): readonly Handler<ActiveContainer>[] {
  const { db, clock, engine } = deps;
  /** Writes with its audit entry in one transaction, and reconciles; the container may be going meanwhile. */
  async function change(
    { state, ctx }: ActiveContainer,
    call: Call,
    [action, detail]: readonly [action: string, detail: Readonly<Record<string, unknown>>],
    work: (tx: Tx, id: string) => Promise<ContainerRow | undefined>,
  ): Promise<void> {
    const { id } = state.row;
    const written = await fenced(db, state.lease, async (tx) => {
      const row = found(await work(tx, id));
      await audit(tx, auditEntry(call, action, id, detail));
      return row;
    });
    await reconciler.onSettingsChanged(state, ctx, written);
  }

  /** Refuses what would lose files, restart the container too often, or pile up too many copies of its files. */
  function mayMount(row: ContainerRow, wanted: readonly string[], discard: boolean): void {
    const { status, mountPaths } = row;
    if (status !== 'stopped' && status !== 'failed' && !engine.keepsFiles && !discard) {
      const added = wanted.filter((path) => !mountPaths.includes(path));
      const there = added.length === 0 ? '' : `, what it has at ${added.join(' and ')} included`;
      throw new Refusal('discards_files', {
        message:
          `The container is restarted for this, and loses all files outside ${mountPaths.join(' and ')}${there}: ` +
          'send "discard": true if that is meant.',
      });
    }
    const changes = wanted.length !== mountPaths.length || wanted.some((path) => !mountPaths.includes(path));
    if (changes && row.mountChanges >= MAX_MOUNT_CHANGES) {
      throw new Refusal('limit_reached', {
        message:
          `The mount paths of this container were changed ${MAX_MOUNT_CHANGES} times, which is the limit: create ` +
          'another container.',
      });
    }
    const waitMs = (row.mountsSetAt?.getTime() ?? 0) + MOUNTS_PAUSE_MS - clock.now();
    if (status === 'running' && waitMs > 0) {
      const retryAfter = Math.ceil(waitMs / 1000);
      throw new Refusal('too_many_changes', {
        message: `The container was restarted for other mount paths a moment ago: try again in ${retryAfter} s.`,
        retryAfter,
      });
    }
  }

  return [
    handler(getSsh, ({ state }: ActiveContainer, call) => ({ ssh_enabled: ownedRow(state, call).sshEnabled })),

    handler(setSsh, async (active: ActiveContainer, call) => {
      const { ssh_enabled } = call.body;
      if (ssh_enabled === ownedRow(active.state, call).sshEnabled) return { ssh_enabled };
      await change(active, call, ['container.ssh', { ssh_enabled }], async (tx, id) => {
        await tellCompute(tx, { kind: 'ssh', containerId: id });
        return setSshEnabled(tx, id, ssh_enabled);
      });
      return { ssh_enabled };
    }),

    handler(getMounts, ({ state }: ActiveContainer, call) => ({ mount_paths: ownedRow(state, call).mountPaths })),

    handler(setMounts, async (active: ActiveContainer, call) => {
      const row = ownedRow(active.state, call);
      const { mount_paths, discard } = call.body;
      const restarted = row.status === 'running';
      mayMount(row, mount_paths, discard);
      await change(active, call, ['container.mounts', { mount_paths, restarted }], (tx, id) =>
        setMountPaths(tx, id, mount_paths, restarted),
      );
      return { mount_paths, restarted };
    }),

    handler(setPullPolicy, async (active: ActiveContainer, call) => {
      const { pull_policy } = call.body;
      if (pull_policy === ownedRow(active.state, call).pullPolicy) return { pull_policy };
      await change(active, call, ['container.pull_policy', { pull_policy }], (tx, id) =>
        setPolicy(tx, id, pull_policy),
      );
      return { pull_policy };
    }),
  ];
}
