/** What the container's actor decides, as pure functions of desired and actual state. */

import { isDeepStrictEqual } from 'node:util';
import { backoffMs } from '../../../lib/waiting.ts';
import { INSTANCE_TYPES } from '../../../proto/compute/fields.ts';
import { MAX_GRACE_SECONDS } from '../../../proto/compute/health.ts';
import { type RestartPolicy, STOP_GRACE_SECONDS } from '../../../proto/compute/workload.ts';
import type { ContainerSpec, ContainerState, Engine, EngineError } from '../../../proto/ports/engine.ts';
import type { ContainerRow, ContainerRun } from '../../../storage/compute/containers.ts';
import type { ContainerOutline } from '../../../storage/compute/outlines.ts';

/**
 * Longest time in `pending`, and in `initializing`. It does not count while the engine or the database cannot be asked.
 */
const START_LIMIT_MS = 10 * 60_000;
/** Crashes without a minute of running in between, before the container counts as failed. */
export const MAX_CRASHES = 5;
/** A container that ran this long has recovered: its crashes are forgotten. */
export const RECOVERED_AFTER_MS = 60_000;
/** An image whose SSH server is not started is running when its workload has stood this long. */
export const WORKLOAD_READY_MS = 15_000;
/**
 * A container that stood this long without a word from its sshd is started anew: its network may not have come about.
 */
export const SILENT_LIMIT_MS = 45_000;
/** How often that is tried for one start. */
export const MAX_SILENT_RESTARTS = 3;
/** Stands for the counted start of a container that is not there. */
export const REMOVED = -1;
const REMOVED_FROM_OUTSIDE = 'it was removed from outside, and of its files only those at its mount paths are left';
/** For how long after its grace a container that is not well is still looked at. */
export const LATE_LIMIT_MS = 10 * 60_000;
/** Between tries of a step that failed. */
const BACKOFF = { minMs: 500, maxMs: 30_000 };

/**
 * What to do next. `launch`: image, create, start. `probe`: is it ready? `restart`: stop it, although it is to run.
 * `resume`: it was frozen. `adjust`: its limits are others, or what it may reach. `join`: it is in another private
 * network than it should be. `keys`: others may log in. `image`: another one is to be pulled for it (image-change.ts),
 * or, of one that does not run, is its image now. `health`: it is not known yet whether it is well (health.ts).
 * `predecessor`: the one whose place it took is to be ended (predecessor.ts). `others`: another one is beside it, for
 * which there is no reason any more: a platform that ended may leave it. A change that was taken back ends its own.
 * `settled`: nothing differs.
 */
export type Step =
  | 'launch'
  | 'probe'
  | 'restart'
  | 'resume'
  | 'adjust'
  | 'join'
  | 'keys'
  | 'stop'
  | 'remove'
  | 'image'
  | 'health'
  | 'predecessor'
  | 'others'
  | 'settled';

/** The next step from what is wanted to what is. Drift that is `tolerated` (`driftOf`) could not be mended before. */
export function nextStep(row: ContainerOutline, actual: ContainerState | undefined, tolerated?: string): Step {
  if (row.desired === 'deleted') return 'remove';
  const runs = actual?.phase === 'running';
  const settled = row.nextImage === undefined ? 'settled' : 'image';
  if (row.desired === 'stopped' || row.status === 'failed') {
    if (runs) return 'stop';
    return actual === undefined || isJoined(row, actual) ? settled : 'join';
  }
  if (actual === undefined || !runs) return 'launch';
  if (row.restart) return 'restart';
  // Another takes its place at this moment, with what differs: once it is written, that is its own.
  if (row.isPromoting && row.status === 'running') return settled === 'settled' ? 'predecessor' : settled;
  const drift = driftOf(row, actual);
  if (drift !== undefined && drift !== tolerated) {
    if (!isJoined(row, actual)) return 'join';
    return hasMounts(row, actual) ? 'adjust' : 'restart';
  }
  if (actual.paused === true) return 'resume';
  if (row.keysApplied < row.keysRevision) return 'keys';
  if (row.status !== 'running') return 'probe';
  if (row.address === actual.address && row.externalAddress === (actual.externalAddress ?? null)) {
    if (settled === 'settled' && row.healthState === 'starting') return 'health';
    if (settled === 'settled' && row.predecessorSince !== null) return 'predecessor';
    return settled === 'settled' && actual.hasOthers === true ? 'others' : settled;
  }
  // Without an address it was taken from its network, and finds back when it is started.
  return actual.address === null ? 'restart' : 'probe';
}

/** Whether nothing is to be done, or it waits in the row (image-change.ts, health.ts, predecessor.ts). */
export function isTendedElsewhere(step: Step): step is 'settled' | 'image' | 'health' | 'predecessor' {
  return step === 'settled' || step === 'image' || step === 'health' || step === 'predecessor';
}

/**
 * Whether the health of a container that runs is still of interest at `now` (Unix ms). Of one that is not well this
 * goes by the longest grace there is: its own is in its settings, and ends the looks earlier (health-look.ts).
 */
export function isHealthOpen(
  row: Pick<ContainerOutline, 'desired' | 'status' | 'healthState' | 'healthSince'>,
  now: number,
): boolean {
  const { desired, status, healthState, healthSince } = row;
  if (desired !== 'running' || status !== 'running' || healthSince === null) return false;
  if (healthState !== 'unhealthy') return healthState === 'starting';
  return now - healthSince.getTime() < MAX_GRACE_SECONDS * 1000 + LATE_LIMIT_MS;
}

/** How a running container differs from its row: a text that changes with either; undefined when it fits. */
export function driftOf(
  row: Pick<ContainerOutline, 'instanceType' | 'memoryMb' | 'storageGb' | 'mountPaths' | 'network' | 'egress'>,
  actual: ContainerState,
): string | undefined {
  const { cpus } = INSTANCE_TYPES[row.instanceType];
  const wanted = { cpus, memoryMb: row.memoryMb, storageGb: row.storageGb };
  const { limits = wanted } = actual;
  const { storageGb = wanted.storageGb } = limits;
  const isSized = limits.cpus === cpus && limits.memoryMb === row.memoryMb && storageGb === row.storageGb;
  const fits = isSized && hasMounts(row, actual) && isJoined(row, actual) && isConfined(row, actual);
  if (fits) return undefined;
  const reach = [row.network, actual.network, row.egress, actual.egress];
  return JSON.stringify([row.mountPaths, actual.mountPaths, wanted, limits, reach]);
}

/** Whether it is in the private network that it should be in, under its name and at its place, or in none. */
function isJoined({ network }: Pick<ContainerOutline, 'network'>, { network: actual }: ContainerState): boolean {
  if (actual === undefined) return true;
  return network?.name === actual?.name && network?.alias === actual?.alias && network?.place === actual?.place;
}

/** Whether it reaches what it may, and no more. */
function isConfined({ egress }: Pick<ContainerOutline, 'egress'>, { egress: actual }: ContainerState): boolean {
  return actual === undefined || isDeepStrictEqual(egress ?? 'any', actual);
}

/** Whether its next image begins beside it. */
export function hasSuccessor(
  { mountPaths, overlap }: Pick<ContainerRow, 'mountPaths' | 'overlap'>,
  { hasSuccessors, sharesMountPaths }: Pick<Engine, 'hasSuccessors' | 'sharesMountPaths'>,
): boolean {
  if (!hasSuccessors) return false;
  return mountPaths.length === 0 || (overlap && sharesMountPaths);
}

function hasMounts({ mountPaths }: Pick<ContainerOutline, 'mountPaths'>, actual: ContainerState): boolean {
  const mounted = actual.mountPaths ?? mountPaths;
  return mounted.length === mountPaths.length && mountPaths.every((path) => mounted.includes(path));
}

/**
 * The engine's form of a row. CPU follows the instance type; a single machine runs every type on its own architecture.
 */
export function specOf(
  row: ContainerRow,
  given: { image: string; hostname: string; authorizedKeys: readonly string[] },
): ContainerSpec {
  return {
    id: row.id,
    userId: row.userId,
    hostname: given.hostname,
    image: given.image,
    cpus: INSTANCE_TYPES[row.instanceType].cpus,
    architecture: INSTANCE_TYPES[row.instanceType].architecture,
    memoryMb: row.memoryMb,
    storageGb: row.storageGb,
    mountPaths: row.mountPaths,
    dataPaths: row.dataPaths,
    authorizedKeys: given.authorizedKeys,
    ...(row.egress === null ? {} : { egress: row.egress }),
    ...(row.stopGrace === STOP_GRACE_SECONDS ? {} : { stopGraceSeconds: row.stopGrace }),
  };
}

/** It is to run, and was not given up. */
export function isStarting(row: Pick<ContainerRow, 'desired' | 'status'>): boolean {
  return row.desired === 'running' && row.status !== 'failed';
}

/** The row of a container that knows the keys of this revision now. */
export function withKeysApplied(row: ContainerRow, revision: number): ContainerRow {
  return { ...row, keysApplied: Math.max(row.keysApplied, revision) };
}

/**
 * Why the workload ended, when this end was not counted yet; undefined when nothing ended. `countedStart`: the start
 * (Unix ms) whose end was counted, or REMOVED.
 */
export function endOf(
  { status }: Pick<ContainerRow, 'status'>,
  actual: ContainerState | undefined,
  countedStart: number | undefined,
): string | undefined {
  if (status === 'pending') return undefined;
  if (actual === undefined) return status === 'running' && countedStart !== REMOVED ? REMOVED_FROM_OUTSIDE : undefined;
  if (actual.startedAt === null || actual.startedAt === countedStart) return undefined;
  return exitReason(actual);
}

/** Whether a workload that ended is started again. What is not there any more did not end by itself. */
export function startsAgain(
  policy: RestartPolicy,
  actual: Pick<ContainerState, 'exitCode' | 'oomKilled'> | undefined,
): boolean {
  if (actual === undefined || policy === 'always') return true;
  return policy === 'on-failure' && (actual.exitCode !== 0 || actual.oomKilled);
}

/** Why an ended workload ended, for its user. */
function exitReason(actual: ContainerState): string {
  if (actual.oomKilled) return 'it ran out of memory';
  return actual.exitCode === null ? 'it ended' : `it ended with exit code ${actual.exitCode}`;
}

/** What the engine says of the last run of a container, at `now` (Unix ms); undefined when its row has it. */
export function newsOfRun(row: ContainerRun, actual: ContainerState, now: number): ContainerRun | undefined {
  const startedAt = actual.startedAt === null ? row.startedAt : new Date(actual.startedAt);
  const startMs = startedAt?.getTime() ?? 0;
  let { endedAt, exitCode } = row;
  const isKnown = actual.endedAt === undefined && endedAt !== null && endedAt.getTime() >= startMs;
  if (actual.phase === 'exited' && !isKnown) {
    endedAt = new Date(actual.endedAt ?? now);
    exitCode = actual.exitCode;
  }
  const isSame = row.startedAt?.getTime() === startedAt?.getTime() && row.endedAt?.getTime() === endedAt?.getTime();
  return isSame ? undefined : { startedAt, endedAt, exitCode };
}

/** What a failed step means: try again after a delay, or fail for good with a reason. */
export function afterFailure(error: EngineError | undefined, failures: number): { retryMs: number; reason?: string } {
  const isFinal = error?.code === 'image_not_found' || error?.code === 'refused' || error?.code === 'data_gone';
  if (isFinal) return { retryMs: 30_000, reason: error.message };
  return { retryMs: backoffMs(failures, BACKOFF) };
}

/** How long to wait before the start after the nth crash in a row, ms. */
export function crashDelay(crashes: number): number {
  return Math.min(30_000, 500 * 2 ** Math.min(crashes, 10));
}

/** Most characters of a workload's last lines. */
const MAX_LAST_WORDS = 500;

/**
 * Lines of a log in one line, without their stamps, escape sequences and control characters, at most 500 characters:
 * the end counts.
 */
export function inOneLine(lines: readonly string[]): string {
  const text = lines
    .map((line) => plainText(line.slice(line.indexOf(' ') + 1)))
    .filter((line) => line !== '')
    .join(' | ');
  const chars = [...text];
  return chars.length > MAX_LAST_WORDS ? `\u2026${chars.slice(1 - MAX_LAST_WORDS).join('')}` : text;
}

/** Most characters of a sentence with words from inside a container. */
const MAX_SENTENCE = 1000;

/** A sentence as rows and notices take it: without control characters, and the first 1,000 characters at most. */
export function boundedSentence(text: string): string {
  const chars = [...plainText(text)];
  return chars.length > MAX_SENTENCE ? `${chars.slice(0, MAX_SENTENCE - 1).join('')}\u2026` : chars.join('');
}

/** A text in one line, without escape sequences and control characters. */
function plainText(text: string): string {
  return (
    text
      // biome-ignore lint/suspicious/noControlCharactersInRegex: terminals' escape sequences (ECMA-48) begin so.
      .replace(/\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*|.)/gu, '')
      .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
      .trim()
  );
}

/** Why it cannot be reached by a terminal or for its log now, and what to do. */
export function whyNotRunning(status: ContainerRow['status']): string {
  switch (status) {
    case 'pending':
      return 'The container is pending: it is about to be started. Its "status_reason" says what it waits for.';
    case 'initializing':
      return 'The container is initializing: it was started. Its "status_reason" says what it waits for.';
    case 'failed':
      return 'The container has failed: its "status_reason" says why. Start it when that is mended.';
    default:
      return `The container is ${status}: start it first.`;
  }
}

/** For what a container that was started waits; with `reason`, that of a restart, which says more. */
export function waitsForReady(reason: string | null): string {
  return reason?.startsWith('restarting: ') ? reason : 'it was started, and its SSH port does not answer yet';
}

/** What stands in the way of a start, and when it is tried again (Unix ms). */
export function triedAgain(problem: string, at: number): string {
  const sentence = /[.!?]$/.test(problem) ? problem : `${problem}.`;
  return `${sentence} The next try is at ${new Date(at).toISOString().slice(11, 19)} UTC.`;
}

/** What users read of a defect. */
export const OWN_ERROR = 'The platform met an error of its own, which its log describes.';
/** What users read while the engine makes the container. */
export const MAKING = 'The container is being made. What it keeps in its mounts may have to be copied first.';
export const TOO_LATE = 'it could not be started within 10 minutes';

/** How long a start has been tried, in Unix ms. */
interface StartTimes {
  readonly row: Pick<ContainerRow, 'status'>;
  readonly triedSince: number | undefined;
  readonly makingSince: number | undefined;
}

/** Whether the engine has been making the container for so long, in ms. */
export function isMakingFor({ makingSince }: Pick<StartTimes, 'makingSince'>, now: number, ms: number): boolean {
  return makingSince !== undefined && now - makingSince >= ms;
}

/** Whether a start has had its time; while the engine makes the container, the engine's own limits count. */
export function isTooLate({ row, triedSince, makingSince }: StartTimes, now: number): boolean {
  if (makingSince !== undefined || triedSince === undefined) return false;
  const isStillStarting = row.status === 'pending' || row.status === 'initializing';
  return isStillStarting && now - triedSince > START_LIMIT_MS;
}

/** What of a row its view shows and a message may change. */
const shown = (row: ContainerRow) => [
  ...[row.name, row.status, row.statusReason, row.address, row.externalAddress, row.sshEnabled, row.sshKeyIds],
  ...[row.mountPaths, row.ports, row.pullPolicy, row.startedAt, row.endedAt, row.exitCode, row.restarts],
  ...[row.image, row.nextImage, row.instanceType, row.memoryMb, row.storageGb, row.network, row.expiresAt],
  ...[row.egress, row.overlap, row.healthState, row.healthReason, row.givenUp, row.addressName],
];

/** Whether a view is another than before, or is gone; undefined: it is the same. */
export function changeOfView(before: ContainerRow, after: ContainerRow): 'changed' | 'gone' | undefined {
  if (before === after || before.desired === 'deleted') return undefined;
  if (after.desired === 'deleted') return 'gone';
  return isDeepStrictEqual(shown(before), shown(after)) ? undefined : 'changed';
}
