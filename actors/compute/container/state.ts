/** What the container's actor is told and what it keeps. */
import type { Call } from '../../../proto/endpoint.ts';
import { Refusal } from '../../../proto/errors.ts';
import type { ContainerState } from '../../../proto/ports/engine.ts';
import type { Log } from '../../../proto/ports/log.ts';
import type { ShardLease } from '../../../proto/ports/placement.ts';
import type { ContainerRow } from '../../../storage/compute/containers.ts';
import type { EntityContext, Ref } from '../../../supervision/index.ts';
import type { ConnectionMessage } from '../../service/connection.ts';
import { callerOf } from '../../service/dispatch.ts';
import type { ContainerMail } from '../placed.ts';
import { CheckAnswers } from './evidence.ts';
import type { HealthFound } from './health-look.ts';
import { driftOf, whyNotRunning } from './rules.ts';
import type { Succession } from './successor.ts';
import type { Report, Work } from './work.ts';

/** What the actor understands. */
export type ContainerMessage =
  | ContainerMail
  /** The pause after a crash is over. */
  | { readonly type: 'backoff-over' }
  /** From the work beside the mailbox. */
  | { readonly type: 'report'; readonly job: Job; readonly report: Report }
  | PullNews
  | PredecessorNews
  | HealthNews
  /** A terminal is gone. */
  | { readonly type: 'detached'; readonly terminal: Ref<ConnectionMessage> };

/** Work under way. */
export interface Job {
  readonly what: Work;
  /** The row it was begun with. */
  readonly row: ContainerRow;
  readonly abort: AbortController;
  /** Resolves when it has ended, whatever it came to. */
  done: Promise<void>;
}

/** A pull of the image that a container is to get. */
export interface ImagePull {
  /** Null: the platform's own. */
  readonly image: string | null;
  /** Since when it is tried, Unix ms. */
  readonly since: number;
  readonly abort: AbortController;
}

/** What is told of a pull: how far it is, that it is over, or that it is time to try again. */
export type PullNews =
  | { readonly type: 'pull-progress'; readonly pull: ImagePull; readonly line: string }
  | { readonly type: 'pulled'; readonly pull: ImagePull; readonly error?: unknown }
  /** A container of it has the place of the one before. */
  | { readonly type: 'promoted'; readonly pull: ImagePull; readonly succession: Succession }
  | { readonly type: 'pull-again'; readonly pull: ImagePull };

/** How a pull goes. */
export interface PullState {
  readonly job: ImagePull;
  failures: number;
  /** The image is there, and a container of it begins beside the one that runs. */
  isBeginning: boolean;
  /** How far it is, for its user. */
  line: string | undefined;
  /** Cancels the timer of the next try. */
  timer: (() => void) | undefined;
}

/** That it is time to end the container whose place was taken, or that this is done; `since`: of which, Unix ms. */
export type PredecessorNews =
  | { readonly type: 'end-predecessor' }
  | { readonly type: 'predecessor-ended'; readonly since: number; readonly error?: unknown };

/** A start of a container whose health is looked at. */
export interface HealthWatch {
  /** Since when (`healthSince` of its row). */
  readonly since: Date;
  readonly abort: AbortController;
}

/** How the looks at it go. */
export interface HealthWatchState {
  readonly watch: HealthWatch;
  /** What was found last, for its user. */
  line: string | undefined;
  /** Cancels the timer of the next look. */
  timer: (() => void) | undefined;
}

/** That it is time to look at a container's health, or what was found. */
export type HealthNews =
  | { readonly type: 'health-look'; readonly watch: HealthWatch }
  | { readonly type: 'health-found'; readonly watch: HealthWatch; readonly found: HealthFound };

/** What the actor keeps of its container. */
export class ContainerActorState {
  /** From before the row was read: what it may write by. */
  readonly lease: ShardLease;
  row: ContainerRow;
  job: Job | undefined = undefined;
  /** A look came while work was under way: reconcile again after it. */
  reconcileAgain = false;
  /** Cancels the timer of the next look. */
  timer: (() => void) | undefined = undefined;
  /** In the pause after a crash: no look shortens it, only another desired state. */
  isBackingOff = false;
  /** Crashes without recovery in between. */
  crashes = 0;
  /** The start whose end was counted as a crash, so that one end counts once: its Unix ms, or REMOVED. */
  countedStart: number | undefined = undefined;
  /** The engine's connection (EngineHealth) at which it was last seen to start or run. */
  connection: number | undefined = undefined;
  /** Work that mends a difference was begun: is it gone? */
  mending = false;
  /** A difference that could not be mended, as `driftOf` says it. */
  tolerated: string | undefined = undefined;
  /** How often it was started anew because it said nothing, since it was last wanted to run. */
  silentRestarts = 0;
  /**
   * Since when its status has been tried to change with an engine and a database that answer, Unix ms; undefined while
   * one of them does not. A new owner of the container counts anew.
   */
  triedSince: number | undefined = undefined;
  /** Since when the engine has been making the container or its image, within limits of its own, if it is. */
  makingSince: number | undefined = undefined;
  /** It makes the image. */
  isBuilding = false;
  /** Failed pieces of work in a row. */
  failures = 0;
  /** What the last of them said, for a start that never comes about. */
  problem: string | undefined = undefined;
  /** How far the image of a start under way is; its row has it as of a few seconds ago. */
  progress: string | undefined = undefined;
  /** When that was written, Unix ms. */
  progressNotedAt = 0;
  /** Under way while its row names an image that waits, and it runs. */
  pull: PullState | undefined = undefined;
  /** Of which a container is begun beside it, also when nobody waits for that any more. */
  readonly successions = new Set<ImagePull>();
  /** Cancels the timer of the end of the container whose place it took; undefined: none is set. */
  predecessor: (() => void) | undefined = undefined;
  /** Under way while it runs and it is not known yet whether it is well, and for a while when it is not. */
  health: HealthWatchState | undefined = undefined;
  /** The start that was not well and is not looked at any more: its `healthSince`, Unix ms. */
  healthOver: number | undefined = undefined;
  /** What its check found since it was well last, or went back. */
  answers = new CheckAnswers();
  /** The time that its timer is set to, Unix ms; undefined: it has none, or this actor has not set it. */
  expiryTimer: number | undefined = undefined;
  /** Terminals that depend on it. A log ends by itself when the engine has no more of it. */
  readonly terminals = new Set<Ref<ConnectionMessage>>();

  /** The state of an actor that just woke up. */
  constructor(lease: ShardLease, row: ContainerRow) {
    this.lease = lease;
    this.row = row;
  }
}

export type ContainerContext = EntityContext<ContainerMessage>;

/** What handlers of its calls get: a container whose actor is awake. */
export interface ActiveContainer {
  readonly state: ContainerActorState;
  readonly ctx: ContainerContext;
}

/** The row, if it is the caller's. Somebody else's container is answered like none at all, to the letter. */
export function ownedRow(state: ContainerActorState, call: Call): ContainerRow {
  if (state.row.userId !== callerOf(call).userId || state.row.desired === 'deleted') {
    throw new Refusal('not_found');
  }
  return state.row;
}

/** The row of a container that says how far the image is that it waits for, for a start or a change. */
export function withProgress({ row: before, progress, pull, health }: ContainerActorState): ContainerRow {
  const row = health?.line === undefined ? before : { ...before, healthReason: health.line };
  const line = row.status === 'pending' ? progress : row.status === 'running' ? pull?.line : undefined;
  return line === undefined ? row : { ...row, statusReason: line };
}

/** Refuses `not_running`. `otherwise`: what to do in place of waiting. */
export function mustRun(row: ContainerRow, otherwise = ''): undefined {
  if (row.status !== 'running')
    throw new Refusal('not_running', { message: `${whyNotRunning(row.status)}${otherwise}` });
}

/** What is still different after it was mended is let be, instead of mending it for ever. */
export function noteDrift(state: ContainerActorState, actual: ContainerState, log: Log): void {
  const drift = driftOf(state.row, actual);
  if (drift === undefined) state.tolerated = undefined;
  else if (state.mending) {
    state.tolerated = drift;
    log.debug({ containerId: state.row.id, drift }, 'a container cannot be made as it should be');
  }
  state.mending = false;
}
