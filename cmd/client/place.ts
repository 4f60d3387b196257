/**
 * Where a command of people runs: a program on their own machine, or the platform, for a login by SSH. Commands use
 * nothing of the process but this. What it lacks they cannot use: by SSH there are no files and no programs.
 */
import type { Readable, Writable } from 'node:stream';
import type { ClientOptions, TroupeClient } from '../../client/index.ts';

/** A platform, and a token for it. */
export interface Profile {
  readonly name: string;
  readonly url: string;
  readonly token: string;
  /** Unknown of an API token. */
  readonly username?: string | undefined;
  readonly userId?: string | undefined;
  /** PEM of the platform's own authority: its certificate must come from this one. */
  readonly authority?: string | undefined;
}

/** What a command reads: a pipe, or a terminal. */
export interface CommandInput extends Readable {
  readonly isTTY?: boolean;
  setRawMode?(isRaw: boolean): unknown;
  /** A pipe that stays open should not keep the program. */
  unref?(): unknown;
}

/** What a command writes to: a pipe, or a terminal, which emits `resize`. */
export interface CommandOutput extends Writable {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
}

/** Calls `gone` when whoever reads the output has left, until the function that comes back is called. */
export function onReaderGone(output: CommandOutput, gone: () => void): () => void {
  output.on('error', gone);
  return () => {
    output.off('error', gone);
    // What is still under way fails, too, and nobody is left to tell.
    if (output.listenerCount('error') === 0) output.on('error', () => {});
  };
}

/** What a tag of one's own repositories holds, in bytes. */
export interface TagSizes {
  /** All parts of the image. */
  readonly bytes: number;
  /** Those that no other tag of the same user has: they go with this one. */
  readonly own_bytes: number;
}

/** The machine of the person, where the command runs on it. */
export interface OwnMachine {
  /** A name for a key of this machine. */
  keyName(): string;
  /** The public key of the person here, as a file, if there is one: where ssh looks, whatever HOME says. */
  ownKeyFile(): string | undefined;
  /** Makes a key where ssh looks for one, and returns the file of its public half. */
  makeKey(): Promise<string>;
  /** Where `makeKey` would make it. */
  readonly newKeyFile: string;
  /** A public key of a file. Throws ClientFailure. */
  readPublicKey(path: string): string;
  /** The text of a file of at most 1 MiB. Throws ClientFailure. */
  readText(path: string): string;
  /** Asks the registry how much the tags of one's own hold, by the references of their images. Rejects as that does. */
  tagSizes(
    images: readonly { readonly image: string }[],
    options: { readonly place: CommandPlace; readonly profile?: string },
  ): Promise<ReadonlyMap<string, TagSizes>>;
  /** Opens an address where there is a desktop. Whether it was tried. */
  openBrowser(url: string): boolean;
}

/** A client of the platform, and what is known of the login. */
export interface OpenedClient {
  readonly client: TroupeClient;
  readonly profile: Profile;
}

/** See above. */
export interface CommandPlace {
  readonly stdin: CommandInput;
  readonly stdout: CommandOutput;
  readonly stderr: CommandOutput;
  /** Variables that decide about colours. */
  readonly environment: Readonly<Partial<Record<'NO_COLOR' | 'FORCE_COLOR' | 'TERM', string>>>;
  /** Undefined by SSH. */
  readonly machine: OwnMachine | undefined;
  /** How the program is called here, as hints name it: `troupe`, or `ssh HOST`. */
  readonly program: string;
  /** Opens a client of the named profile. Throws ClientFailure. */
  open(profile: string | undefined, options?: Pick<ClientOptions, 'onLimitWait'>): OpenedClient;
  /** Asks the person on standard error. Rejects with ClientFailure `interrupted`. */
  ask(question: string): Promise<string>;
  /** Calls `listener` at Ctrl-C, which then does nothing else, until the function that comes back is called. */
  onInterrupt(listener: () => void): () => void;
  /** The same, and when the program is told to end or its terminal is closed: what it began elsewhere ends, too. */
  onEnd(listener: () => void): () => void;
  /** What the command ends with, unless it fails. */
  exitWith(code: number): void;
}
