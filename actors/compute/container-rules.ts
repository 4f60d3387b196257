/** What the container's actor decides, as pure functions of desired and actual state. */

import { INSTANCE_TYPES } from '../../proto/compute.ts';
import type { ContainerSpec, ContainerState, EngineError } from '../../proto/ports.ts';
import type { ContainerOutline, ContainerRow } from '../../storage/compute/containers.ts';

/** Longest time from "start" to "running" (design.md, section 9). */
export const INITIALIZING_LIMIT_MS = 10 * 60_000;
/** Crashes without a minute of running in between, before the container counts as failed. */
export const MAX_CRASHES = 5;
/** A container that ran this long has recovered: its crashes are forgotten. */
export const RECOVERED_AFTER_MS = 60_000;
/** An image without sshd is running when its workload has stood this long. */
export const WORKLOAD_READY_MS = 15_000;
/** Seconds a workload has between SIGTERM and SIGKILL. */
export const STOP_GRACE_SECONDS = 10;

/** What to do next. `launch`: image, create, start. `probe`: is it ready? `settled`: nothing differs. */
export type Step = 'launch' | 'probe' | 'stop' | 'remove' | 'settled';

/** The next step from what is wanted to what is. */
export function nextStep(
  row: Pick<ContainerRow, 'desired' | 'status' | 'address'>,
  actual: ContainerState | undefined,
): Step {
  if (row.desired === 'deleted') return 'remove';
  const runs = actual?.phase === 'running';
  if (row.desired === 'stopped' || row.status === 'failed') return runs ? 'stop' : 'settled';
  if (!runs) return 'launch';
  return row.status === 'running' && row.address === actual.address ? 'settled' : 'probe';
}

/** Whether the stored outline and the engine's word differ, so that the container's actor should look. */
export function needsLook(row: ContainerOutline, actual: ContainerState | undefined): boolean {
  return nextStep(row, actual) !== 'settled';
}

/** The engine's form of a row. CPU follows the instance type; a single machine runs every type on its own architecture. */
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
    memoryMb: row.memoryMb,
    storageGb: row.storageGb,
    mountPaths: row.mountPaths,
    authorizedKeys: given.authorizedKeys,
  };
}

/** Why an ended workload ended, for its user. */
export function exitReason(actual: ContainerState): string {
  if (actual.oomKilled) return 'it ran out of memory';
  return actual.exitCode === null ? 'it ended' : `it ended with exit code ${actual.exitCode}`;
}

/** What a failed step means: try again after a delay, or fail for good with a reason. */
export function afterFailure(error: EngineError | undefined, failures: number): { retryMs: number; reason?: string } {
  if (error?.code === 'image_not_found' || error?.code === 'refused') return { retryMs: 30_000, reason: error.message };
  const delay = Math.min(30_000, 500 * 2 ** Math.min(failures, 10));
  return { retryMs: delay };
}

/** How long to wait before the start after the nth crash in a row, ms. */
export function crashDelay(crashes: number): number {
  return Math.min(30_000, 500 * 2 ** Math.min(crashes, 10));
}
