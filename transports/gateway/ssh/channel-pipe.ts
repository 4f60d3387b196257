/** Moves bytes from a channel of one connection into a channel of the other, at the pace of the slower. */
import type { Readable } from 'node:stream';
import type { Channel } from 'ssh2';
import { takesData } from './internals.ts';
import type { SshEnd } from './ssh-end.ts';

/** One direction of a relay. */
interface ChannelPipe {
  /** Resolves when the source has ended and all of it was sent or, once nobody takes it, thrown away. */
  readonly done: Promise<void>;
  /** From here on the rest is thrown away. */
  discard(): void;
}

/**
 * Starts one. Nothing is written beyond the target's window: ssh2 keeps only one rest a channel when that is exceeded,
 * and with output and error output in one channel would send some of it twice.
 */
export function pipeChannel(
  source: Readable,
  write: (bytes: Buffer) => unknown,
  target: Channel,
  side: SshEnd,
): ChannelPipe {
  let rest: Buffer | undefined;
  let isEnded = false;
  let isDiscarding = false;
  let finish: () => void = () => {};
  const done = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const unwatch = side.watch(() => source.readableLength + (rest?.length ?? 0));

  const send = () => {
    while (rest !== undefined) {
      if (isDiscarding || side.socket.destroyed || !takesData(target)) {
        rest = undefined;
        break;
      }
      const room = side.room(target);
      if (room === 0) {
        source.pause();
        side.whenRoom(target, send);
        return;
      }
      const part: Buffer = rest.length <= room ? rest : rest.subarray(0, room);
      rest = part.length === rest.length ? undefined : rest.subarray(part.length);
      write(part);
    }
    if (isEnded) {
      unwatch();
      finish();
    } else source.resume();
  };
  source.on('data', (chunk: Buffer) => {
    // A paused stream may deliver once more.
    rest = rest === undefined ? chunk : Buffer.concat([rest, chunk]);
    send();
  });
  source.on('end', () => {
    isEnded = true;
    send();
  });
  source.on('error', () => {
    isEnded = true;
    isDiscarding = true;
    send();
  });
  return {
    done,
    discard: () => {
      isDiscarding = true;
      send();
    },
  };
}
