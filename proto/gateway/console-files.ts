/** The files of the console, as they were built. */

/** One of them, with what a build compressed. */
export interface ConsoleFile {
  /** Media type, with charset for text. */
  readonly type: string;
  readonly bytes: Buffer;
  readonly gzip?: Buffer | undefined;
  readonly brotli?: Buffer | undefined;
  /** Names these bytes: another build's are called otherwise. Without quotes. */
  readonly tag: string;
  /** Its name has a hash of its bytes, so browsers may keep it for ever. */
  readonly isForever: boolean;
}

/** By path, such as `/index.html`. */
export type ConsoleFiles = ReadonlyMap<string, ConsoleFile>;
