/** Who calls a service of this process, and which of their streams are open. */
import type { Clock, Log } from '../proto/ports.ts';
import type { Authenticate } from '../proto/tokens.ts';
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
}

/** Proves callers by their tokens. News of a token is heeded at once: it is forgotten, and its streams end. */
export function callersOf(options: CallersOptions): { authenticate: Authenticate; streams: OpenStreams } {
  const { db, secret, clock, log, teardown } = options;
  const directory = tokenDirectory(db);
  const { authenticate, forget } = authenticator({ secret, clock, directory });
  const streams = new OpenStreams(directory, log);
  teardown.add('open streams', async () => streams.close());
  const news = directory.onNews((change) => {
    forget(change);
    streams.look(change);
  });
  teardown.add('token news', () => news.close());
  return { authenticate, streams };
}
