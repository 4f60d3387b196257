/** Who calls a service of this process, and which of their streams are open. */

import type { SharedSecret } from '../../proto/auth/shared-secret.ts';
import type { Authenticate, TokenNews } from '../../proto/auth/tokens.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import type { Log } from '../../proto/ports/log.ts';
import { tokenDirectory } from '../../storage/auth/token-directory.ts';
import type { Db } from '../../storage/db.ts';
import { authenticator } from '../../transports/api/authenticate.ts';
import { type Changes, changesPerMinute } from '../../transports/api/changes.ts';
import { OpenStreams } from '../../transports/api/open-streams.ts';
import type { Teardown } from './teardown.ts';

/** What proves callers needs; `secret` is JWT_SECRET. */
interface AuthenticationOptions {
  readonly db: Db;
  readonly secret: SharedSecret;
  readonly clock: Clock;
  readonly log: Log;
  readonly teardown: Teardown;
  /** CHANGES_PER_MINUTE. */
  readonly changesAMinute: number;
  /** Told that an API token was used, at a time in unix seconds; not for every use. */
  readonly onUse?: (tokenId: string, at: number) => void;
}

export interface Authentication {
  readonly authenticate: Authenticate;
  readonly streams: OpenStreams;
  /** Counts what users change here. */
  readonly changes: Changes;
  /** What is called by who changed tokens in this process, before it answers. */
  readonly tokensChanged: (news: TokenNews) => void;
}

/** Proves callers by their tokens. News of a token is heeded at once: it is forgotten, and its streams end. */
export function openAuthentication(options: AuthenticationOptions): Authentication {
  const { db, secret, clock, log, teardown, onUse, changesAMinute } = options;
  const directory = tokenDirectory(db);
  const { authenticate, forget } = authenticator({
    secret,
    clock,
    directory,
    ...(onUse === undefined ? {} : { onUse }),
  });
  const streams = new OpenStreams(directory, log);
  teardown.add('open streams', async () => streams.close());
  const tokensChanged = (change: TokenNews) => {
    forget(change);
    streams.look(change);
  };
  const news = directory.onNews(tokensChanged);
  teardown.add('token news', () => news.close());
  return { authenticate, streams, changes: changesPerMinute(changesAMinute, clock), tokensChanged };
}
