/**
 * How often one user may change something, whatever it is and whatever token says who they are. Each change is a row
 * for ever in the audit trail, and work for others; without a bound one account fills the disk.
 */
import { Buckets } from '../../proto/buckets.ts';
import type { AnyEndpoint, Caller } from '../../proto/endpoint.ts';
import { isChange } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import type { Clock } from '../../proto/ports/clock.ts';

const MINUTE = 60_000;

/** What a process counts. All of its services share one. */
export interface Changes {
  /** Counts a call, if it is a change. Refuses `too_many_changes`. */
  count(endpoint: AnyEndpoint, caller: Caller): void;
}

/** Lets each user make `perMinute` changes at once, and gives them back over a minute. */
export function changesPerMinute(perMinute: number, clock: Clock): Changes {
  const buckets = new Buckets({ burst: perMinute, everyMs: MINUTE / perMinute }, clock);
  return {
    count: (endpoint, { userId }) => {
      if (!isChange(endpoint)) return;
      const wait = buckets.take(userId);
      if (wait === 0) return;
      const seconds = Math.ceil(wait / 1000);
      throw new Refusal('too_many_changes', {
        message: `You may change ${perMinute} things a minute: wait ${seconds} s, then go on more slowly.`,
        retryAfter: seconds,
      });
    },
  };
}
