/**
 * The actor of one container (kind `compute/container`, key: container id): a reconciler. Rows say what is wanted, the
 * engine says what is; a message only says "look". Work on the engine runs beside the mailbox, one piece at a time, so
 * that requests are answered meanwhile.
 *
 *   pending --engine accepted--> initializing --ready--> running --crash--> initializing
 *      |             |                |                     |
 *      +-------------+----------------+------- stop --------+--> stopped --start--> pending
 *      +-- cannot be done, 10 min, 5 crashes --> failed --start--> pending
 *      any -- delete --> (hidden) -- engine has nothing left --> row forgotten, asleep
 */
import { waitAtMost } from '../../../lib/waiting.ts';
import {
  deleteContainer,
  getContainer,
  startContainer,
  stopContainer,
  terminal,
} from '../../../proto/compute/endpoints.ts';
import { readFiles, removeFiles, writeFiles } from '../../../proto/compute/files.ts';
import { logs, readLogs } from '../../../proto/compute/logs.ts';
import type { Call } from '../../../proto/endpoint.ts';
import { Refusal } from '../../../proto/errors.ts';
import { audit } from '../../../storage/audit.ts';
import { type ContainerRow, containerById, type Desired, setDesired } from '../../../storage/compute/containers.ts';
import { tellCompute } from '../../../storage/compute/news.ts';
import { fenced } from '../../../storage/fenced.ts';
import { isUserActive } from '../../../storage/offboarding.ts';
import { append } from '../../../storage/outbox.ts';
import { auditEntry } from '../../service/audit.ts';
import { BoundedAudits } from '../../service/bounded-audit.ts';
import { found, type Handler, handleCall, handler, handlers } from '../../service/dispatch.ts';
import { keptReply } from '../../service/kept.ts';
import type { AnsweringKind } from '../../service/parts.ts';
import { freeAddressName } from '../address-names.ts';
import type { ComputeDeps } from '../deps.ts';
import { execHandler } from '../exec/exec-handler.ts';
import { COMPUTE_CONTAINER } from '../placed.ts';
import { containerView, createdView } from '../views.ts';
import { attachTerminal } from './attached-terminals.ts';
import { entryHandler } from './entry.ts';
import { Expiry, isExpired } from './expiry.ts';
import { endHealth, HealthLooks } from './health.ts';
import { endPull, ImageChanges } from './image-change.ts';
import { ingressHandlers } from './ingress.ts';
import { stoppedNotice } from './notices.ts';
import { Predecessors } from './predecessor.ts';
import { ContainerReconciler } from './reconciler.ts';
import { changeOfView } from './rules.ts';
import { settingsHandlers } from './settings.ts';
import {
  type ActiveContainer,
  ContainerActorState,
  type ContainerMessage,
  type Job,
  mustRun,
  ownedRow,
  withProgress,
} from './state.ts';
import type { EngineHealth } from './sweeps.ts';
import { updateHandlers } from './update.ts';

const SLEEP_AFTER_MS = 60_000;
const LOG_OTHERWISE = ' For its log so far, GET the same path without an upgrade.';
const EXPIRED =
  'The time of the container is over: give it another one, or none, and start it then (`expires_at` of PATCH, or ' +
  '`troupe update NAME --expires never`).';
/** How long a container that goes to another node waits for its work to end. */
const CANCEL_MS = 1000;

/** What the user of a container hears of it. */
type ViewNews = { readonly type: 'changed' | 'gone'; readonly userId: string; readonly containerId: string };

/**
 * The kind, for the service's tree. `onStatus` hears of every change of status after it is written, `onView` of every
 * change of what its view shows.
 */
export function containerKind(
  deps: ComputeDeps,
  onStatus: (row: ContainerRow) => void,
  engineHealth: EngineHealth,
  onView: (news: ViewNews) => void,
): AnsweringKind<ContainerMessage, ContainerActorState> {
  const reconciler = new ContainerReconciler(deps, onStatus, engineHealth);
  const images = new ImageChanges(deps, reconciler);
  const health = new HealthLooks(deps, reconciler);
  const expiry = new Expiry(deps, reconciler);
  const predecessors = new Predecessors(deps, reconciler);

  const table = handlers<ActiveContainer>(
    ...desiredHandlers(deps, reconciler),
    ...settingsHandlers(deps, reconciler),
    ...updateHandlers(deps, reconciler),
    ...insideHandlers(deps),
  );

  return {
    kind: COMPUTE_CONTAINER.kind,
    answers: table,
    sleepAfterMs: SLEEP_AFTER_MS,
    activate: async (id) => {
      const lease = deps.placement.lease(COMPUTE_CONTAINER, id);
      const row = await containerById(deps.db, id);
      return row === undefined ? undefined : new ContainerActorState(lease, row);
    },
    onSleep: (state) => {
      endPull(state);
      endHealth(state);
      return cancelJob(state.job);
    },
    handle: async (state, message, ctx) => {
      const before = state.row;
      switch (message.type) {
        case 'call':
          await handleCall(table, { state, ctx }, message);
          break;
        case 'look':
          await reconciler.reconcile(state, ctx);
          break;
        case 'expiry':
          await expiry.onTimer(state, ctx, message.done);
          break;
        case 'backoff-over':
          await reconciler.backoffOver(state, ctx);
          break;
        case 'report':
          await reconciler.onReport(state, ctx, message.job, message.report);
          break;
        case 'attach':
          attachTerminal(state, ctx, message.terminal);
          break;
        case 'detached':
          state.terminals.delete(message.terminal);
          break;
        case 'pull-progress':
        case 'pulled':
        case 'pull-again':
        case 'promoted':
          await images.onNews(state, ctx, message);
          break;
        case 'end-predecessor':
        case 'predecessor-ended':
          await predecessors.onNews(state, ctx, message);
          break;
        case 'health-look':
        case 'health-found':
          await health.onNews(state, ctx, message);
          break;
      }
      await images.tend(state, ctx);
      await expiry.tend(state);
      health.tend(state, ctx);
      predecessors.tend(state, ctx);
      const type = changeOfView(before, state.row);
      if (type !== undefined) onView({ type, userId: state.row.userId, containerId: state.row.id });
      const isAtWork = [state.job, state.timer, state.pull, state.health, state.predecessor].some(
        (each) => each !== undefined,
      );
      ctx.keepAwake(isAtWork || state.terminals.size > 0);
      return state;
    },
  };
}

/** What is wanted of a container: that it runs, stops, or goes. */
function desiredHandlers(
  deps: ComputeDeps,
  reconciler: Pick<ContainerReconciler, 'setDesired'>,
): readonly Handler<ActiveContainer>[] {
  const { db, clock } = deps;

  /** Writes the desired state, its audit entry and its news, and begins to reconcile. */
  async function change({ state, ctx }: ActiveContainer, call: Call, desired: Desired, discard = false): Promise<void> {
    const { id } = state.row;
    const verb = { running: 'start', stopped: 'stop', deleted: 'delete' }[desired];
    const written = await fenced(db, state.lease, async (tx) => {
      if (desired === 'running' && !(await isUserActive(tx, state.row.userId))) throw new Refusal('unauthorized');
      const row = found(await setDesired(tx, id, desired, desired === 'running' ? 'pending' : 'stopped', { discard }));
      await audit(tx, auditEntry(call, `container.${verb}`, id, { name: row.name, ...(discard ? { discard } : {}) }));
      if (desired === 'deleted') await freeAddressName(tx, id, clock.now());
      if (desired === 'stopped') await append(tx, stoppedNotice(row, clock.now(), 'it was stopped'));
      await tellCompute(
        tx,
        desired === 'running'
          ? { kind: 'status', containerId: id, status: row.status }
          : { kind: desired === 'deleted' ? 'gone' : 'stopped', containerId: id },
      );
      await keptReply(tx, call, createdView(row, deps.containersDomain));
      return row;
    });
    await reconciler.setDesired(state, ctx, written);
  }

  return [
    handler(startContainer, async ({ state, ctx }: ActiveContainer, call) => {
      const row = ownedRow(state, call);
      const { status } = row;
      if (isExpired(row, clock.now())) throw new Refusal('conflict', { message: EXPIRED });
      if (status !== 'stopped' && status !== 'failed') {
        throw new Refusal('conflict', {
          message: `The container is ${status}: only a stopped or failed one can be started.`,
        });
      }
      await change({ state, ctx }, call, 'running', call.query.discard === 'true');
      return createdView(state.row, deps.containersDomain);
    }),
    handler(stopContainer, async ({ state, ctx }: ActiveContainer, call) => {
      const { status } = ownedRow(state, call);
      if (status === 'stopped' || status === 'failed') {
        throw new Refusal('conflict', { message: `The container is ${status}: there is nothing to stop.` });
      }
      await change({ state, ctx }, call, 'stopped');
      return createdView(state.row, deps.containersDomain);
    }),
    handler(deleteContainer, async ({ state, ctx }: ActiveContainer, call) => {
      ownedRow(state, call);
      await change({ state, ctx }, call, 'deleted');
      return { status: 'ok' as const };
    }),
  ];
}

/** What changes nothing about the container itself. */
function insideHandlers(deps: ComputeDeps): readonly Handler<ActiveContainer>[] {
  return [
    handler(getContainer, ({ state }: ActiveContainer, call) => {
      ownedRow(state, call);
      return containerView(withProgress(state), deps);
    }),
    ...ingressHandlers(deps),
    entryHandler(deps),
    ...fileHandlers(deps),
    handler(terminal, ({ state }: ActiveContainer, call) => mustRun(ownedRow(state, call))),
    execHandler(deps),
    handler(logs, ({ state }: ActiveContainer, call) => mustRun(ownedRow(state, call), LOG_OTHERWISE)),
    handler(readLogs, ({ state }: ActiveContainer, call) => void ownedRow(state, call)),
  ];
}

/** Entries about the files of one container: the limit on changes does not bound them. */
const FILE_BOUNDS = { burst: 600, everyMs: 1000 } as const;

/** What is asked before bytes of files go to or from a container. */
function fileHandlers({ db, clock }: ComputeDeps): readonly Handler<ActiveContainer>[] {
  const bounded = new BoundedAudits<ContainerActorState>(clock, FILE_BOUNDS);
  /** Writes down that files are changed, before they are, as long as there are not too many. */
  async function auditFiles({ state }: ActiveContainer, call: Call, action: string, path: string): Promise<undefined> {
    const { id } = ownedRow(state, call);
    const entry = bounded.take(state, auditEntry(call, action, id, { path }));
    if (entry !== undefined) await fenced(db, state.lease, (tx) => audit(tx, entry));
    return undefined;
  }
  return [
    handler(readFiles, ({ state }: ActiveContainer, call) => void ownedRow(state, call)),
    handler(writeFiles, async (active: ActiveContainer, call) => {
      await auditFiles(active, call, 'container.write_files', call.query.path);
      return { status: 'ok' as const };
    }),
    handler(removeFiles, async (active: ActiveContainer, call) => {
      await auditFiles(active, call, 'container.remove_files', call.query.path);
      return { status: 'ok' as const };
    }),
  ];
}

/** Ends work whose container moves, so that two nodes do not do it at once. What takes too long is idempotent. */
async function cancelJob(job: Job | undefined): Promise<void> {
  if (job === undefined) return;
  job.abort.abort(new Error('another node looks after the container'));
  await waitAtMost(job.done, CANCEL_MS);
}
