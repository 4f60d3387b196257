/** The call that creates a container. */

import { keptEgress, shownEgress } from '../../proto/compute/egress.ts';
import { createContainer } from '../../proto/compute/endpoints.ts';
import { Refusal } from '../../proto/errors.ts';
import { newId } from '../../proto/ids.ts';
import { parseImage } from '../../proto/repositories.ts';
import { invalidField } from '../../proto/validation-messages.ts';
import { audit } from '../../storage/audit.ts';
import { insertContainer } from '../../storage/compute/containers.ts';
import { expectHealth } from '../../storage/compute/health.ts';
import { setMembership } from '../../storage/compute/networks.ts';
import { NO_SETTINGS, putSettings } from '../../storage/compute/settings.ts';
import { attachKeys, ownedKeys } from '../../storage/compute/ssh-keys.ts';
import { fenced } from '../../storage/fenced.ts';
import { isUserActive } from '../../storage/offboarding.ts';
import { auditEntry } from '../service/audit.ts';
import { callerOf, type Handler, handler } from '../service/dispatch.ts';
import { keptReply } from '../service/kept.ts';
import { currentLimit, limitReached } from '../service/user-limits.ts';
import { changeAddressName } from './address-names.ts';
import type { ComputeDeps } from './deps.ts';
import { imageProblem, ownImage } from './image-rules.ts';
import { wantedMembership } from './network-rules.ts';
import type { ComputeUserState } from './user-state.ts';
import { pushStatus, pushView } from './user-views.ts';
import { createdView } from './views.ts';
import { changedSettings, newsOfSettings, refuseCommand } from './workload-rules.ts';

/** A time of a longer year is none that everybody reads. */
const MOST_EXPIRY_MS = 100 * 365 * 24 * 3_600_000;

/** Its handler. `reconcile` wakes the actor of a container whose row is written. */
export function creationHandler(
  deps: ComputeDeps,
  reconcile: (containerId: string) => void,
): Handler<ComputeUserState> {
  return handler(createContainer, async (state: ComputeUserState, call) => {
    const { body } = call;
    const image = await imageFor(deps, body.image, callerOf(call).username);
    const wanted = [...new Set(body.ssh_key_ids)];
    const settings = changedSettings(NO_SETTINGS, body);
    refuseCommand(image, settings, deps);
    const expiresAt = expiryOf(body.expires_at, deps.clock.now()) ?? undefined;
    const egress = keptEgress(body.egress);
    refuseOverlap(body.overlap, deps.engine);
    const configured = newsOfSettings(NO_SETTINGS, settings);
    const { row, reply } = await fenced(deps.db, state.lease, async (tx) => {
      if (!(await isUserActive(tx, state.userId))) throw new Refusal('unauthorized');
      const owned = new Set(await ownedKeys(tx, state.userId, wanted));
      const missing = wanted.find((id) => !owned.has(id));
      if (missing !== undefined) throw invalidField('ssh_key_ids', `you have no SSH key ${missing}`);
      const { most } = await currentLimit(tx, deps.userLimits, state.userId, 'containers');
      const inserted = await insertContainer(tx, {
        id: newId(),
        userId: state.userId,
        name: body.name,
        instanceType: body.instance_type,
        memoryMb: body.memory_mb,
        storageGb: body.storage_gb,
        image,
        pullPolicy: body.pull_policy,
        mountPaths: body.stateless ? [] : body.mount_paths,
        sshEnabled: body.ssh_enabled,
        stopGrace: body.stop_grace,
        restartPolicy: body.restart,
        expiresAt,
        egress,
        overlap: body.overlap,
        most,
      });
      if (inserted === undefined) throw limitReached(callerOf(call).username, 'containers', most, 'containers');
      const isChecked = settings.health !== null;
      const looked = (isChecked && (await expectHealth(tx, inserted.id, { isChecked, runsOn: false }))) || inserted;
      const network = await wantedMembership(tx, undefined, body, {
        caller: callerOf(call),
        engine: deps.engine,
      });
      const joined = network === undefined ? looked : await setMembership(tx, inserted.id, network);
      const asked = { caller: callerOf(call), now: deps.clock.now() };
      const made = (await changeAddressName(tx, inserted, body.address_name, asked)) ?? joined;
      await attachKeys(tx, inserted.id, wanted);
      if (configured !== undefined) await putSettings(tx, inserted.id, settings, deps.sealKey);
      const { name, instanceType } = inserted;
      const detail = {
        name,
        instance_type: instanceType,
        image,
        ...(expiresAt && { expires_at: expiresAt.toISOString() }),
        ...(body.address_name && { address_name: body.address_name }),
        ...(egress && { egress: shownEgress(egress) }),
        ...(body.overlap && { overlap: true }),
        ...(network && { network: network.name, alias: network.alias }),
        ...(configured && { settings: configured }),
      };
      await audit(tx, auditEntry(call, 'container.create', inserted.id, detail));
      return { row: made ?? inserted, reply: await keptReply(tx, call, createdView(inserted, deps.containersDomain)) };
    });
    deps.log.info({ userId: state.userId, containerId: row.id }, 'container created');
    pushStatus(state, row);
    pushView(deps, state, row);
    reconcile(row.id);
    return reply;
  });
}

/** The time that a call gives a container; undefined: it says nothing. Throws Refusal for one that is over. */
export function expiryOf(said: string | null | undefined, now: number): Date | null | undefined {
  if (said === undefined || said === null) return said;
  const expiresAt = new Date(said);
  const inMs = expiresAt.getTime() - now;
  if (inMs <= 0) throw invalidField('expires_at', 'must be in the future');
  if (inMs > MOST_EXPIRY_MS)
    throw invalidField(
      'expires_at',
      'must be within 100 years; for never leave it out at creation, or send null (`--expires never`)',
    );
  return expiresAt;
}

/** Throws Refusal `invalid_request` for an `overlap` that the engine does not have. */
export function refuseOverlap(
  overlap: boolean | undefined,
  { sharesMountPaths }: Pick<ComputeDeps['engine'], 'sharesMountPaths'>,
): void {
  if (overlap !== true || sharesMountPaths) return;
  throw invalidField(
    'overlap',
    'cannot be had: on Kubernetes two containers do not share mount paths. One without any changes without a pause',
  );
}

/** The image for the row of a user's container. Rejects Refusal `invalid_request` when the user may not use it. */
export async function imageFor(deps: ComputeDeps, image: string | undefined, username: string): Promise<string | null> {
  const own = ownImage(image, deps);
  if (own !== undefined || image === undefined) return own ?? null;
  const { registryHost, engine } = deps;
  const repository = registryHost === undefined ? undefined : parseImage(image, registryHost)?.repository;
  const pullable = repository === undefined ? [] : await deps.mayPull?.(username, [repository]);
  const mayPull = pullable !== undefined && pullable.length > 0;
  const names = engine.builtIns.map(({ name }) => name);
  const problem = imageProblem(image, registryHost, username, { mayPull, names });
  if (problem !== undefined) throw invalidField('image', problem);
  return image;
}
