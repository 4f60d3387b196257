/** What the authentication service is given by the composition root. */
import type { Bus, Clock, Log } from '../../proto/ports.ts';
import type { Db } from '../../storage/db.ts';

export interface AuthDeps {
  readonly db: Db;
  readonly bus: Bus;
  readonly log: Log;
  readonly clock: Clock;
  readonly jwtSecret: string;
  readonly sessionTtlSeconds: number;
  /** The user of this name is the administrator (interface section 2.1). */
  readonly adminUsername: string;
}
