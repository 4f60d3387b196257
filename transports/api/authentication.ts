/** Who calls a service of this process, and which of their streams are open. */
import type { SharedSecret } from '../../proto/auth/shared-secret.ts';
import type { Authenticate, TokenDirectory, TokenNews } from '../../proto/auth/tokens.ts';
import { Buckets } from '../../proto/buckets.ts';
import { type AnyEndpoint, type Caller, isChange } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import type { KeptAnswers } from '../../proto/kept-answers.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import type { Log } from '../../proto/ports/log.ts';
import { authenticator } from './authenticate.ts';
import { OpenStreams } from './open-streams.ts';

/** What authentication needs; `secret` is JWT_SECRET. */
interface AuthenticationOptions {
  readonly directory: TokenDirectory;
  readonly secret: SharedSecret;
  readonly clock: Clock;
  readonly log: Log;
  /** Answers of requests that are sent again. */
  readonly kept: KeptAnswers;
  /** How many changes a user may make in a minute. */
  readonly changesAMinute: number;
  /** Told that an API token was used, at a time in unix seconds; not for every use. */
  readonly onUse: (tokenId: string, at: number) => void;
}

export interface Authentication {
  readonly authenticate: Authenticate;
  readonly streams: OpenStreams;
  /** Counts what users change here. */
  readonly changes: Changes;
  readonly kept: KeptAnswers;
  /** To be called by whoever changed tokens in this process, before it answers. */
  readonly tokensChanged: (news: TokenNews) => void;
  /** Ends the open streams, and listens for news no longer. */
  close(): Promise<void>;
}

/**
 * Authenticates callers by their tokens. A token that was changed or deleted anywhere is forgotten at once, and the
 * streams that were opened with it end.
 */
export function openAuthentication(options: AuthenticationOptions): Authentication {
  const { directory, secret, clock, log, kept, changesAMinute, onUse } = options;
  const { authenticate, forget } = authenticator({ secret, clock, directory, onUse });
  const streams = new OpenStreams(directory, log);
  const tokensChanged = (news: TokenNews) => {
    forget(news);
    streams.recheck(news);
  };
  const watching = directory.onNews(tokensChanged);
  return {
    authenticate,
    streams,
    changes: changesPerMinute(changesAMinute, clock),
    kept,
    tokensChanged,
    close: async () => {
      await watching.close();
      streams.close();
    },
  };
}

const MINUTE = 60_000;

/** What a process counts. All of its services share one. */
export interface Changes {
  /** Counts a call, if it is a change. Refuses `too_many_changes`. */
  count(endpoint: AnyEndpoint, caller: Caller): void;
}

/**
 * Lets each user make `perMinute` changes at once, whatever token says who they are, and gives them back over a minute.
 * Each change is a row for ever in the audit trail, and work for others: one account could fill the disk.
 */
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
