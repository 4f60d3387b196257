/** What is changed about a container after its creation in one call, and how its workload is run. */

import { isDeepStrictEqual } from 'node:util';
import { keptEgress, shownEgress } from '../../../proto/compute/egress.ts';
import { listRevisions } from '../../../proto/compute/revisions.ts';
import { updateContainer } from '../../../proto/compute/settings.ts';
import { getSettings } from '../../../proto/compute/workload.ts';
import type { CallOf } from '../../../proto/endpoint.ts';
import { Refusal } from '../../../proto/errors.ts';
import { invalidField } from '../../../proto/validation-messages.ts';
import { audit } from '../../../storage/audit.ts';
import {
  dropNextImage,
  replaceKeys,
  type Sizes,
  setEgress,
  setEnding,
  setExpiry,
  setImage,
  setName,
  setNextImage,
  setOverlap,
  setPullPolicy,
  setSizes,
} from '../../../storage/compute/changes.ts';
import { type ContainerRow, containerById, setRestart } from '../../../storage/compute/containers.ts';
import { expectHealth, keepFormer } from '../../../storage/compute/health.ts';
import { setMembership } from '../../../storage/compute/networks.ts';
import { tellCompute } from '../../../storage/compute/news.ts';
import { noteReleased } from '../../../storage/compute/releases.ts';
import { forgetSecrets } from '../../../storage/compute/revisions.ts';
import {
  type ContainerSettings,
  NO_SETTINGS,
  nextSettingsOf,
  putSettings,
  sealedSettings,
  settingsOf,
} from '../../../storage/compute/settings.ts';
import type { Tx } from '../../../storage/db.ts';
import { fenced } from '../../../storage/fenced.ts';
import { auditEntry } from '../../service/audit.ts';
import { callerOf, type Handler, handler } from '../../service/dispatch.ts';
import { changeAddressName } from '../address-names.ts';
import type { ComputeDeps } from '../deps.ts';
import { imageText, shownImage, withoutDigest } from '../image-rules.ts';
import { wantedMembership } from '../network-rules.ts';
import { expiryOf, imageFor, refuseOverlap } from '../user-creation.ts';
import { containerView, settingsView } from '../views.ts';
import { changedSettings, isOfSecrets, newsOfSettings, refuseCommand, restartsFor } from '../workload-rules.ts';
import { setExpiryTimer } from './expiry.ts';
import type { ContainerReconciler } from './reconciler.ts';
import {
  heldImage,
  type RevisionTarget,
  revisionTarget,
  revisionViews,
  rollbackView,
  settingsOfRevision,
} from './revisions.ts';
import { isStarting } from './rules.ts';
import { type ActiveContainer, ownedRow, withProgress } from './state.ts';
import { comingImage, differences, type ImageStep, imageStep, sizesProblem, wayBack } from './update-rules.ts';

type UpdateCall = CallOf<typeof updateContainer>;
type ChangedFields = UpdateCall['body'];

/** What a call changes, as far as its row says. */
type Plan = ReturnType<typeof planOf>;

/** The handlers. What is so already changes nothing, and restarts nothing. */
export function updateHandlers(
  deps: ComputeDeps,
  reconciler: Pick<ContainerReconciler, 'onSettingsChanged'>,
): readonly Handler<ActiveContainer>[] {
  const { db, sealKey } = deps;
  return [
    handler(updateContainer, async ({ state, ctx }: ActiveContainer, call) => {
      ownedRow(state, call);
      const revision = await wantedRevision(deps, ownedRow(state, call), call);
      const image = revision === undefined ? await wantedImage(deps, call) : revision.image;
      const plan = planOf(deps, ownedRow(state, call), call, { image, revision });
      // Before the row, which would not come to be heard of if this process ended in between.
      if (plan.expiresAt) await setExpiryTimer(deps, state, plan.expiresAt.getTime());
      const written = await fenced(db, state.lease, (tx) => change(deps, tx, plan));
      if (written !== undefined) await reconciler.onSettingsChanged(state, ctx, written);
      return { ...containerView(withProgress(state), deps), ...(revision && { rollback: rollbackView(revision) }) };
    }),

    handler(listRevisions, async ({ state }: ActiveContainer, call) => revisionViews(deps, ownedRow(state, call))),

    handler(getSettings, async ({ state }: ActiveContainer, call) => {
      const row = ownedRow(state, call);
      return settingsView((await settingsOf(db, row.id, sealKey)) ?? NO_SETTINGS, row);
    }),
  ];
}

/** The image that is asked for; undefined: none is. Throws Refusal `invalid_request` for one that may not be used. */
async function wantedImage(deps: ComputeDeps, call: UpdateCall): Promise<string | null | undefined> {
  const { image } = call.body;
  return image === undefined || image === null ? image : imageFor(deps, image, callerOf(call).username);
}

/**
 * The revision that is asked for; undefined: none is. Its image is that of now where both are the same. Throws Refusal
 * `invalid_request` for one that is not kept, or whose image the user may not use any more.
 */
async function wantedRevision(
  deps: ComputeDeps,
  row: ContainerRow,
  call: UpdateCall,
): Promise<RevisionTarget | undefined> {
  const { revision, revision_secrets = false } = call.body;
  if (revision === undefined) return undefined;
  const target = await revisionTarget(deps, row, revision, revision_secrets);
  if (target.image !== null) await imageFor(deps, withoutDigest(target.image), callerOf(call).username);
  const held = await deps.db.tx((tx) => heldImage(deps, tx, row));
  return held === target.image ? { ...target, image: row.image } : target;
}

/** What the call changes. Throws Refusal for sizes that cannot be, and for what would lose files. */
function planOf(
  deps: ComputeDeps,
  row: ContainerRow,
  call: UpdateCall,
  {
    image: wanted,
    revision,
  }: { readonly image: string | null | undefined; readonly revision: RevisionTarget | undefined },
) {
  const { engine } = deps;
  const { body } = call;
  const { memory_mb = row.memoryMb, instance_type = row.instanceType, storage_gb = row.storageGb } = body;
  const sizes: Sizes = { memoryMb: memory_mb, instanceType: instance_type, storageGb: storage_gb };
  const problem = sizesProblem(row, sizes, engine, engine.usage(row.id));
  if (problem !== undefined) throw invalidField(problem.path, problem.message);
  const step = imageStep(row, wanted);
  const isLimited = sizes.memoryMb !== row.memoryMb || sizes.instanceType !== row.instanceType;
  const isResized = isLimited || sizes.storageGb !== row.storageGb;
  // With another image it is made anew anyway.
  const restarts = isLimited && !engine.resizesRunning && isStarting(row) && !waits(row, step);
  if (restarts && step === 'keep' && !engine.keepsFiles && body.discard !== true)
    throw new Refusal('discards_files', {
      message:
        `The container is restarted for this, and loses all files outside ${row.mountPaths.join(' and ')}: ` +
        'send "discard": true if that is meant.',
    });
  const keyIds = body.ssh_key_ids === undefined ? undefined : [...new Set(body.ssh_key_ids)].sort((a, b) => a - b);
  const isSame = keyIds?.join() === row.sshKeyIds.join();
  const egress = body.egress === undefined ? row.egress : keptEgress(body.egress);
  const expiresAt = expiryOf(body.expires_at, deps.clock.now());
  refuseOverlap(body.overlap, engine);
  return {
    call,
    row,
    /** What the image is in the end. */
    image: wanted === undefined ? comingImage(row) : wanted,
    step,
    /** Whose settings are wanted; undefined: what the call says. */
    revision,
    sizes,
    isResized,
    /** Undefined: those that it has. */
    keyIds: isSame ? undefined : keyIds,
    /** When its time is over; null: never; undefined: as it is. */
    expiresAt: expiresAt?.getTime() === row.expiresAt?.getTime() ? undefined : expiresAt,
    /** What it may reach; undefined: as it is. */
    egress: isDeepStrictEqual(egress, row.egress) ? undefined : egress,
    /** Whether its next image begins beside it although it has mount paths; undefined: as it is. */
    overlap: body.overlap === row.overlap ? undefined : body.overlap,
    /** It is restarted for its sizes. */
    restarts,
  };
}

/** Whether another image waits once the step is done. */
function waits({ nextImage }: Pick<ContainerRow, 'nextImage'>, step: ImageStep): boolean {
  return step === 'wait' || (step === 'keep' && nextImage !== undefined);
}

/** Writes what differs, with its audit entries. Resolves with the row; undefined when nothing does. */
async function change(deps: ComputeDeps, tx: Tx, plan: Plan): Promise<ContainerRow | undefined> {
  const { call, row, step } = plan;
  const { id, name: before } = row;
  const { name = before } = call.body;
  if (name !== before) {
    await setName(tx, id, name);
    await audit(tx, auditEntry(call, 'container.rename', id, { name, before }));
  }
  const ending = await changeEnding(tx, plan);
  const gone = Object.entries(call.body.secrets ?? {}).flatMap(([key, value]) => (value === null ? [key] : []));
  if (gone.length > 0) await forgetSecrets(tx, id, gone, deps.sealKey);
  const settings = await settingsChange(deps, tx, plan);
  const restartsForSettings = settings.news !== undefined && !waits(row, step) && restartsFor(settings.news);
  if (!settings.isKept && !waits(row, step)) {
    const way = wayBack(row, settings.wanted.health, restartsForSettings && !isOfSecrets(settings.news));
    const former = way === 'set' ? await heldImage(deps, tx, row) : undefined;
    if (way !== 'keep') await keepFormer(tx, id, former, deps.sealKey);
    await expectHealth(tx, id, { isChecked: settings.wanted.health !== null, runsOn: !restartsForSettings });
  }
  const network = await changeNetwork(deps, tx, plan);
  const asked = { caller: callerOf(call), now: deps.clock.now() };
  const isElsewhere = (await changeAddressName(tx, row, call.body.address_name, asked)) !== undefined;
  const isMade = (await changeRow(tx, plan)) || network !== row.network || isElsewhere;
  if (step === 'wait' || (waits(row, step) && settings.news !== undefined)) {
    const image = imageText(shownImage(plan, deps));
    const reason = `The image ${image} is being pulled. The container runs on until it is there.`;
    const sealed = settings.isKept ? null : sealedSettings(id, settings.wanted, deps.sealKey);
    await setNextImage(tx, id, { image: plan.image, settings: sealed, reason });
  } else if (!settings.isKept && !waits(row, step)) await putSettings(tx, id, settings.wanted, deps.sealKey);
  // It is for images to come: the one that runs is in its place already.
  if (row.status === 'running' && !waits(row, step) && settings.news?.replaced?.includes('release'))
    await noteReleased(tx, id);
  const now = await containerById(tx, id);
  if (now === undefined || now.desired === 'deleted') throw new Refusal('not_found');
  const isOther = restartsForSettings || step === 'set' || plan.restarts;
  const restarted = isOther && isStarting(now);
  if (settings.news !== undefined || ending.length > 0) {
    const replaced = [...(settings.news?.replaced ?? []), ...ending];
    const ofRevision = call.body.revision_secrets === true ? { secrets_of_revision: call.body.revision } : {};
    const detail = { ...settings.news, ...(replaced.length > 0 && { replaced }), ...ofRevision, restarted };
    await audit(tx, auditEntry(call, 'container.settings', id, detail));
  }
  if (isMade) {
    const was = { ...valuesOf(row), image: comingImage(row) };
    const wanted = { ...wantedValues(plan), ...namesIn(network) };
    await audit(tx, auditEntry(call, 'container.update', id, { ...differences(was, wanted), restarted }));
  }
  if (settings.news === undefined && ending.length === 0 && name === before && !isMade) return undefined;
  if (!restarted) return now;
  // Gateways know then that its program refuses connections for a while.
  await tellCompute(tx, { kind: 'status', containerId: id, status: 'pending' });
  return setRestart(tx, id);
}

/** How it stops, and what follows when it ends. Resolves with the names of what is another now. */
async function changeEnding(tx: Tx, { call, row }: Plan): Promise<readonly string[]> {
  const { stop_grace = row.stopGrace, restart = row.restartPolicy } = call.body;
  const ending = [
    ...(stop_grace === row.stopGrace ? [] : ['stop_grace']),
    ...(restart === row.restartPolicy ? [] : ['restart']),
  ];
  if (ending.length > 0) await setEnding(tx, row.id, { stopGrace: stop_grace, restartPolicy: restart });
  return ending;
}

/** Its sizes, its keys, its pull policy, and its image unless that waits. Resolves with whether anything is another. */
async function changeRow(tx: Tx, plan: Plan): Promise<boolean> {
  const { call, row, step, keyIds, expiresAt, egress, overlap } = plan;
  const { pull_policy = row.pullPolicy } = call.body;
  if (plan.isResized) await setSizes(tx, row.id, plan.sizes);
  if (pull_policy !== row.pullPolicy) await setPullPolicy(tx, row.id, pull_policy);
  if (keyIds !== undefined) {
    const replaced = await replaceKeys(tx, row, keyIds);
    if ('missing' in replaced) throw invalidField('ssh_key_ids', `you have no SSH key ${replaced.missing}`);
    for (const fingerprint of replaced.removed) await tellCompute(tx, { kind: 'key', userId: row.userId, fingerprint });
  }
  if (expiresAt !== undefined) await setExpiry(tx, row.id, expiresAt);
  if (egress !== undefined) await setEgress(tx, row.id, egress);
  if (overlap !== undefined) await setOverlap(tx, row.id, overlap);
  if (step === 'set') await setImage(tx, row.id, plan.image);
  if (step === 'drop') await dropNextImage(tx, row.id, row.nextImage ?? null, null);
  const isOther = [keyIds, expiresAt, egress, overlap].some((each) => each !== undefined);
  return plan.isResized || pull_policy !== row.pullPolicy || isOther || step !== 'keep';
}

/** Its private network, and its name there. Resolves with its membership, the same object if nothing is another. */
async function changeNetwork({ engine }: ComputeDeps, tx: Tx, { call, row }: Plan): Promise<ContainerRow['network']> {
  const asked = { caller: callerOf(call), containerId: row.id, engine };
  const network = await wantedMembership(tx, row.network, call.body, asked);
  if (network !== row.network) await setMembership(tx, row.id, network);
  return network;
}

/** How the workload is run after a change. */
interface WorkloadChanges {
  readonly wanted: ContainerSettings;
  /** What differs from what is run, or is to be run with the image that waits; undefined: nothing. */
  readonly news: ReturnType<typeof newsOfSettings>;
  /** The row of settings stays as it is. */
  readonly isKept: boolean;
}

/** What the call says of the workload. Throws Refusal `invalid_request` for settings that do not fit the image. */
async function settingsChange(deps: ComputeDeps, tx: Tx, plan: Plan): Promise<WorkloadChanges> {
  const { sealKey } = deps;
  const { row, step, image } = plan;
  const change = workloadOf(plan.call.body);
  const isChange = Object.keys(change).length > 0 || plan.revision !== undefined;
  if (!isChange && step === 'keep') return { wanted: NO_SETTINGS, news: undefined, isKept: true };
  const present = (await settingsOf(tx, row.id, sealKey)) ?? NO_SETTINGS;
  // What came with an image goes with it.
  const next = step === 'drop' ? undefined : await nextSettingsOf(tx, row.id, sealKey);
  const before = next ?? present;
  const wanted =
    plan.revision === undefined ? changedSettings(before, change) : settingsOfRevision(plan.revision, before);
  refuseCommand(image, wanted, deps);
  return { wanted, news: newsOfSettings(before, wanted), isKept: newsOfSettings(present, wanted) === undefined };
}

function workloadOf(
  body: ChangedFields,
): Pick<ChangedFields, 'env' | 'secrets' | 'command' | 'entrypoint' | 'working_dir' | 'release' | 'health'> {
  const { env, secrets, command, entrypoint, working_dir, release, health } = body;
  return {
    ...(env === undefined ? {} : { env }),
    ...(secrets === undefined ? {} : { secrets }),
    ...(command === undefined ? {} : { command }),
    ...(entrypoint === undefined ? {} : { entrypoint }),
    ...(working_dir === undefined ? {} : { working_dir }),
    ...(release === undefined ? {} : { release }),
    ...(health === undefined ? {} : { health }),
  };
}

function namesIn(network: ContainerRow['network']) {
  return { network: network?.name ?? null, alias: network?.alias ?? null };
}

function valuesOf(row: ContainerRow) {
  return {
    ...namesIn(row.network),
    memory_mb: row.memoryMb,
    instance_type: row.instanceType,
    storage_gb: row.storageGb,
    ssh_key_ids: row.sshKeyIds,
    pull_policy: row.pullPolicy,
    address_name: row.addressName,
    expires_at: row.expiresAt?.toISOString() ?? null,
    egress: shownEgress(row.egress) ?? 'any',
    overlap: row.overlap,
  };
}

function wantedValues({ call, row, image, sizes, keyIds, ...plan }: Plan) {
  const { expiresAt = row.expiresAt, egress = row.egress, overlap = row.overlap } = plan;
  return {
    image,
    memory_mb: sizes.memoryMb,
    instance_type: sizes.instanceType,
    storage_gb: sizes.storageGb,
    ssh_key_ids: keyIds ?? row.sshKeyIds,
    pull_policy: call.body.pull_policy ?? row.pullPolicy,
    address_name: call.body.address_name === undefined ? row.addressName : call.body.address_name,
    expires_at: expiresAt?.toISOString() ?? null,
    egress: shownEgress(egress) ?? 'any',
    overlap,
  };
}
