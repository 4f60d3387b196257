/** How often a caller may change something: what was changed counts, not what was refused. */
import { type AnyEndpoint, type Caller, isRateLimited } from '../../proto/endpoint.ts';
import { ERRORS, Refusal } from '../../proto/errors.ts';
import { type ChangePace, FairBuckets } from '../../proto/fair-buckets.ts';
import type { Clock } from '../../proto/ports/clock.ts';

/** Refusals cost the platform work, too, but leave nothing: there may be this many times as many. */
const REFUSALS = 5;

/** What a process lets its callers change. All of its services share one. */
export interface ChangeLimit {
  /**
   * Runs a call, which counts if it may have changed something: not when `work` says that it only repeats an answer.
   * Rejects as `work` does, or refuses `too_many_changes`.
   */
  run<T>(endpoint: AnyEndpoint, caller: Caller | undefined, work: (repeats: () => void) => Promise<T>): Promise<T>;
}

/** Without a limit. */
export const NO_CHANGE_LIMIT: ChangeLimit = { run: (_endpoint, _caller, work) => work(() => {}) };

/**
 * Bounds what each user changes: every change is a row for ever in the audit trail, and work for others, so one account
 * could fill the disk. A user's sessions share one budget, and their tokens another. A change is reserved before it is
 * made, so that no more are under way than may be made.
 */
export function changeLimit(pace: ChangePace, clock: Clock): ChangeLimit {
  const { burst, perSecond } = pace;
  const changes = new FairBuckets(pace, clock);
  const refusals = new FairBuckets({ burst: burst * REFUSALS, perSecond: perSecond * REFUSALS }, clock);
  const counted = async <T>(caller: Caller, work: (repeats: () => void) => Promise<T>): Promise<T> => {
    const { bucket, client, others } = shareOf(caller);
    const refusal = refusals.take(bucket, client);
    if (refusal.waitMs > 0)
      throw tooMany(refusal.waitMs, 'Too many of your requests were refused: read what the answers say, and');
    const change = changes.take(bucket, client);
    if (change.waitMs > 0) {
      refusal.giveBack();
      const most = `${burst} changes at once, then ${perSecond} a second`;
      throw tooMany(change.waitMs, `You may make ${most}, shared with your other ${others}:`);
    }
    let isRefused = false;
    try {
      return await work(() => {
        change.giveBack();
        refusal.giveBack();
      });
    } catch (error) {
      // After a fault nobody knows what was changed.
      isRefused = error instanceof Refusal && ERRORS[error.code].status < 500;
      throw error;
    } finally {
      (isRefused ? change : refusal).giveBack();
    }
  };
  return {
    run: (endpoint, caller, work) =>
      caller === undefined || !isRateLimited(endpoint) ? work(() => {}) : counted(caller, work),
  };
}

function tooMany(waitMs: number, why: string): Refusal {
  const retryAfter = Math.ceil(waitMs / 1000);
  return new Refusal('too_many_changes', { message: `${why} wait ${retryAfter} s.`, retryAfter });
}

/** From which budget a caller takes, as which of those who share it. */
function shareOf({ kind, userId, tokenId, via, serviceAccount }: Caller): {
  readonly bucket: string;
  readonly client: string;
  readonly others: string;
} {
  if (kind === 'api_token')
    return { bucket: `tokens/${userId}`, client: serviceAccount?.id ?? tokenId, others: 'tokens' };
  // Each command over SSH has a session of its own.
  return { bucket: `sessions/${userId}`, client: via === 'ssh_key' ? via : tokenId, others: 'sessions' };
}
