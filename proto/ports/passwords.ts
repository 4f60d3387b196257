/** Passwords at rest: slow hashes, made and compared off the event loop. */
import type { ClientNetwork } from '../client-network.ts';

export interface PasswordHashes {
  /** The hash of a password, for `client`, who waits for it. Refuses `overloaded`. */
  hash(password: string, client: ClientNetwork): Promise<string>;
  /** Whether the password is the hashed one. Refuses `overloaded`. */
  verify(stored: string, password: string, client: ClientNetwork): Promise<boolean>;
}
