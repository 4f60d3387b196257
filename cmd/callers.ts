/** Who calls a service of this process, and which of their streams are open. */
import type { Clock, Log } from '../proto/ports.ts';
import type { Authenticate, TokenNews } from '../proto/tokens.ts';
import { tokenDirectory } from '../storage/auth/token-directory.ts';
import type { Db } from '../storage/db.ts';
import { authenticator } from '../transports/api/authenticate.ts';
import { OpenStreams } from '../transports/api/open-streams.ts';
import type { Teardown } from './teardown.ts';

/** What proves callers needs; `secret` is JWT_SECRET. */
export interface CallersOptions {
  readonly db: Db;
  readonly secret: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly teardown: Teardown;
  /** Told when an API token was used. */
  readonly onUse?: (tokenId: string, at: number) => void;
}

/** What a process knows of callers. */
export interface Callers {
  readonly authenticate: Authenticate;
  readonly streams: OpenStreams;
  /** For what this process changes itself: here a deleted token opens nothing more before the answer. */
  readonly tokensChanged: (news: TokenNews) => void;
}

/** Proves callers by their tokens. News of a token is heeded at once: it is forgotten, and its streams end. */
export function callersOf(options: CallersOptions): Callers {
  const { db, secret, clock, log, teardown, onUse } = options;
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
  return { authenticate, streams, tokensChanged };
}
