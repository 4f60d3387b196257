/** Files in a container, as an engine reaches them. */
import type { Readable } from 'node:stream';
import { CodedError } from '../../lib/errors.ts';

/** The platform's own folder in each container. On Docker it holds the values of the container's secrets. */
export const PLATFORM_FOLDER = '/etc/troupe';

export type FileErrorCode =
  | 'missing' // there is nothing at the path
  | 'is_folder' // a folder is in the place of a file
  | 'no_folder' // something else is in the place of a folder
  | 'read_only'
  | 'no_space'
  | 'refused'; // the engine says why

/** Why files cannot be read or changed, beside what makes all calls of an engine fail; `message` is fit for users. */
export class FileError extends CodedError<FileErrorCode> {}

/** What is at a path. */
export interface FileStat {
  /**
   * Where it really is: links were followed. Those on the way are, at least where they lead into PLATFORM_FOLDER or
   * above it.
   */
  readonly path: string;
  readonly isFolder: boolean;
  /** Bytes of a file. */
  readonly size: number;
  /** Permissions, 0 to 0o7777. */
  readonly mode: number;
  /** Unix ms, whole seconds on some engines. */
  readonly modifiedMs: number;
}

/**
 * Files in containers. Paths are absolute and normal. All reject with FileError, and with EngineError `not_found`,
 * `unavailable`, and `not_running` where an engine reaches files of containers that run only.
 */
export interface ContainerFiles {
  /** What is at a path; undefined when there is nothing. */
  stat(id: string, path: string): Promise<FileStat | undefined>;
  /** A tar archive of a file or a folder, whose first entry is that, under its own name. The reader ends it. */
  read(id: string, path: string, signal: AbortSignal): Promise<Readable>;
  /**
   * Extracts a tar archive into a folder that exists. Folders on the way to an entry are made. A folder is never
   * replaced by something else. What was extracted stays when it breaks off.
   */
  write(id: string, folder: string, archive: Readable, signal: AbortSignal): Promise<void>;
  /** Removes a file, or a folder with all in it. Needs a container that runs. */
  remove(id: string, path: string, signal: AbortSignal): Promise<void>;
}
