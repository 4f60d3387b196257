/** Commands for whoever logged in to an account by SSH: what the SSH server hands to what runs them. */
import type { Readable, Writable } from 'node:stream';
import type { SshAccount } from '../gateway/ssh.ts';

/** The terminal of a client. */
export interface AccountTerminal {
  /** Its type, such as `xterm-256color`. */
  readonly name: string;
  readonly cols: number;
  readonly rows: number;
}

/** A signal that a client sends, or a change of its window. */
export type AccountEvent = 'interrupt' | 'hang up' | 'resize';

/** A session (RFC 4254 section 6): its streams keep back what the other side does not take. */
export interface AccountChannel {
  readonly account: SshAccount;
  /** Of the client. */
  readonly address: string;
  /** As the client wrote it; undefined where it asks for a shell. */
  readonly command: string | undefined;
  /** As it is now; undefined without one. */
  readonly terminal: () => AccountTerminal | undefined;
  /** The client asks for no colours (https://no-color.org). */
  readonly isPlain: boolean;
  readonly input: Readable;
  readonly output: Writable;
  readonly errors: Writable;
  readonly onEvent: (listener: (event: AccountEvent) => void) => void;
  /** Aborted when nobody is there any more, or the login has ended. */
  readonly gone: AbortSignal;
}

/** Runs them. */
export interface AccountCommands {
  /** Resolves with the exit code once it has ended. Never rejects. */
  run(channel: AccountChannel): Promise<number>;
}
