/** Who calls a service of this process, and which of their streams are open. */
import type { SharedSecret } from '../../proto/auth/shared-secret.ts';
import type { Authenticate, TokenDirectory, TokenNews } from '../../proto/auth/tokens.ts';
import type { ChangePace } from '../../proto/fair-buckets.ts';
import type { KeptAnswers } from '../../proto/kept-answers.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import type { Log } from '../../proto/ports/log.ts';
import { authenticator } from './authenticate.ts';
import { type ChangeLimit, changeLimit } from './change-limit.ts';
import { OpenStreams } from './open-streams.ts';

/** What authentication needs; `secret` is JWT_SECRET. */
interface AuthenticationOptions {
  readonly directory: TokenDirectory;
  readonly secret: SharedSecret;
  readonly clock: Clock;
  readonly log: Log;
  /** Answers of requests that are sent again. */
  readonly kept: KeptAnswers;
  /** How many changes a user may make. */
  readonly changePace: ChangePace;
  /** Told that an API token was used, at a time in unix seconds; not for every use. */
  readonly onUse: (tokenId: string, at: number) => void;
}

export interface Authentication {
  readonly authenticate: Authenticate;
  readonly streams: OpenStreams;
  /** Bounds what users change here. */
  readonly changes: ChangeLimit;
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
  const { directory, secret, clock, log, kept, changePace, onUse } = options;
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
    changes: changeLimit(changePace, clock),
    kept,
    tokensChanged,
    close: async () => {
      await watching.close();
      streams.close();
    },
  };
}
