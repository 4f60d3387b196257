/** Joins a channel of the client with one of the container, at the pace of the slower, and loses nothing at the end. */
import type { Readable } from 'node:stream';
import type { Channel, Client, ClientChannel, Connection, ServerChannel } from 'ssh2';
import { takesData } from './internals.ts';
import type { SshEnd } from './ssh-end.ts';

/** The two connections of a login. */
interface Sides {
  readonly client: SshEnd;
  readonly container: SshEnd;
}

/** The same with what ssh2 has of them. */
export interface LoginConnections {
  readonly client: Connection;
  readonly container: Client;
  readonly sides: Sides;
}

/** How a process ended (RFC 4254 section 6.10). */
type Exit = { readonly code: number } | { readonly signal: string; readonly isCore: boolean; readonly text: string };

/**
 * Joins a session (RFC 4254 section 6). The end of the container's half goes on in this order: all output, then how the
 * process ended, then EOF, then the close; a close that overtakes output cuts it off. Resolves when both are closed.
 * Must be called in the turn in which `inside` opened. `hungUp` says that the client has closed its half already.
 */
export async function relaySession(outside: ServerChannel, inside: ClientChannel, sides: Sides): Promise<void> {
  const { client, container } = sides;
  let exit: Exit | undefined;
  inside.on('exit', (code: number | null, signal?: string, isCore?: unknown, text?: string) => {
    exit =
      code === null
        ? { signal: (signal ?? '').replace(/^SIG/, ''), isCore: Boolean(isCore), text: text ?? '' }
        : { code };
  });
  for (const stream of [outside, outside.stderr, inside, inside.stderr]) stream.on('error', () => {});
  const closed = new Promise<void>((resolve) => container.whenClosed(inside, resolve));
  const output = pipeChannel(inside, (bytes) => outside.write(bytes), outside, client);
  const errors = pipeChannel(inside.stderr, (bytes) => outside.stderr.write(bytes), outside, client);
  const input = pipeChannel(outside, (bytes) => inside.write(bytes), inside, container);
  void input.done.then(() => inside.eof());
  client.whenClosed(outside, () => {
    // Nobody reads any more: the process is to hear of it at once, whatever it still has to read.
    for (const one of [input, output, errors]) one.discard();
    inside.close();
  });
  await Promise.all([output.done, errors.done, closed]);
  input.discard();
  if (exit !== undefined) {
    if ('code' in exit) outside.exit(exit.code);
    else outside.exit(exit.signal, exit.isCore, exit.text);
  }
  outside.eof();
  outside.close();
}

/** Joins two forwarded connections. Each half ends for itself: a program may end what it says and go on listening. */
export async function relayForward(outside: Channel, inside: Channel, sides: Sides): Promise<void> {
  const { client, container } = sides;
  for (const stream of [outside, inside]) stream.on('error', () => {});
  const down = pipeChannel(inside, (bytes) => outside.write(bytes), outside, client);
  const up = pipeChannel(outside, (bytes) => inside.write(bytes), inside, container);
  void down.done.then(() => outside.eof());
  void up.done.then(() => inside.eof());
  // A side that is closed takes nothing more; what it said before goes on to the other first.
  client.whenClosed(outside, () => {
    down.discard();
    void up.done.then(() => inside.close());
  });
  container.whenClosed(inside, () => {
    up.discard();
    void down.done.then(() => outside.close());
  });
  await Promise.all([down.done, up.done]);
  outside.close();
  inside.close();
}

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
function pipeChannel(source: Readable, write: (bytes: Buffer) => unknown, target: Channel, side: SshEnd): ChannelPipe {
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
