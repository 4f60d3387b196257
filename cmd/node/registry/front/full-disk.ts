/**
 * Ends pushes while the disk of the images is full. Their token was given before, and an upload that has begun may send
 * without end. The registry is another process here, which goes on: who pulls notices nothing.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Ending } from '../../../../proto/ports/ending.ts';
import type { RegistryRoom } from '../../../../proto/ports/local-registry.ts';
import type { Log } from '../../../../proto/ports/log.ts';
import { lookAfter } from '../../../../transports/engines/docker/host/processes.ts';
import type { StoreFiles } from '../files.ts';
import { tagFolder } from '../image-store.ts';
import { type PushedPart, partOf } from '../pushed-part.ts';
import type { Admit } from '../quota.ts';
import { folderStore, removeUploads, unfinishedUploads } from '../store.ts';

/** How often it is looked at the disk, ms. */
const LOOK_EVERY_MS = 1000;
/** The registry notices that its client is gone, ms. */
const NOTICE_MS = 500;
const FULL = 'The disk of the image registry is almost full: remove images, or ask the administrator for room.';

interface FullDiskOptions {
  readonly files: StoreFiles;
  readonly room: () => Promise<RegistryRoom>;
  readonly log: Log;
}

/** See above. */
export class FullDisk {
  readonly #keeper: Ending;
  readonly #files: StoreFiles;
  #isFull = false;

  /** Begins to look. */
  constructor({ files, room, log }: FullDiskOptions) {
    this.#files = files;
    this.#keeper = lookAfter(
      LOOK_EVERY_MS,
      async () => {
        this.#isFull = (await room()) === 'none';
        // Without any, the disk is filled by something else.
        if (!this.#isFull || (await unfinishedUploads(files)).length === 0) return;
        await delay(NOTICE_MS);
        const uploads = await unfinishedUploads(files);
        await removeUploads(uploads);
        log.warn({ uploads: uploads.length }, 'the disk is full: unfinished pushes of images were ended and removed');
      },
      (error, nextInMs) => log.error({ err: error, nextInMs }, 'the disk of the images cannot be looked at'),
    );
  }

  /** Refuses what adds to the disk while it is full, also in the middle; the rest is asked of `then`. */
  readonly before = (then: Admit): Admit => {
    return async (request) => {
      const part = partOf(request.method, request.target);
      // To take off a tag writes a manifest.
      if (part === undefined || request.method === 'DELETE') return then(request);
      if (part.kind === 'manifest') {
        return this.#isFull && !(await this.#isThere(part)) ? FULL : then(request);
      }
      if (this.#isFull) return FULL;
      const admitted = await then(request);
      if (typeof admitted === 'string' || 'later' in admitted) return admitted;
      return { ...admitted, onBody: (bytes) => (this.#isFull ? FULL : admitted.onBody?.(bytes)) };
    };
  };

  /** Whether the manifest is for a tag that is there. */
  async #isThere({ repository, name }: PushedPart): Promise<boolean> {
    if (name === undefined) return false;
    const view = await folderStore(this.#files).view();
    return (await view.look(tagFolder(`repositories/${repository}`, name))) !== undefined;
  }

  close(): Promise<void> {
    return this.#keeper.close();
  }
}
