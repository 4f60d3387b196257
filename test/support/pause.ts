/** Waiting for time: only where time is the subject. Everything else waits for a condition (until.ts). */
import { setTimeout as delay } from 'node:timers/promises';

/** What a pause may be for. */
export type PauseReason =
  /** Clients do one thing after the other at a pace. */
  | 'pace'
  /** A fault strikes at a random moment, or lasts so long. */
  | 'fault'
  /** Whoever was refused comes back after a while, as real clients do. */
  | 'retry'
  /** A stand-in takes its time, as the real one does. */
  | 'slow peer'
  /** What is measured, or must not change, is watched for so long. */
  | 'watch';

/** Lets `ms` go by; ends early, without an error, when `signal` is aborted. */
export async function pause(ms: number, _reason: PauseReason, signal?: AbortSignal): Promise<void> {
  await delay(ms, undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
}
