/**
 * One shell channel of an SSH connection as a Shell (proto/ports/shell.ts). The connection carries nothing else, so
 * they end together. What waits is bounded both ways:
 * - towards the reader by SSH's own window: ssh2 grants 2 MiB and renews it at half, so at most about 3 MiB wait here;
 *   a server that sends past its window is cut off, since ssh2 would keep whatever it sends;
 * - towards the shell by one chunk: the next is taken when the channel and the socket below it have room.
 */
import { Duplex } from 'node:stream';
import type { Client, ClientChannel } from 'ssh2';
import { EngineError } from '../../proto/ports/engine.ts';
import { cells, type Shell, type ShellEnd } from '../../proto/ports/shell.ts';
import { ReadTurns } from './read-fairness.ts';

/** Past this many unread bytes the server has ignored the window it was given. */
const MAX_UNREAD_BYTES = 6 * 1024 * 1024;
/** How long the other side may take to close its half before the socket is destroyed. */
const HANG_UP_MS = 2000;

/**
 * Makes the Shell of an open channel, and takes over all three: the shell's end, `close()` and destroying its stream
 * end channel, client and socket. To be called in the turn in which the channel opened, or output may be missed.
 */
export function shellOver(client: Client, socket: Duplex, channel: ClientChannel): Shell {
  const stream = new ShellStream(client, socket, channel);
  return {
    stream,
    resize: (cols, rows) => channel.setWindow(cells(rows), cells(cols), 0, 0),
    close: () => void stream.destroy(),
    ended: stream.ended,
  };
}

/** Ends an SSH connection: tells the server, closes our half; destroys a socket whose other half stays. Idempotent. */
export function hangUp(client: Client, socket: Duplex): void {
  client.end();
  if (socket.destroyed) return;
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const timer = setTimeout(() => socket.destroy(), HANG_UP_MS);
  socket.once('close', () => clearTimeout(timer));
}

/** Of all shells of this process: they share its event loop. */
export const turns = new ReadTurns<Duplex>();

class ShellStream extends Duplex {
  readonly ended: Promise<ShellEnd>;
  readonly #client: Client;
  readonly #socket: Duplex;
  readonly #channel: ClientChannel;
  #end: ShellEnd | undefined;
  #resolveEnded: (end: ShellEnd) => void = () => {};
  /** Ends to come before the shell is over: of both outputs, and of the channel, before which its exit is told. */
  #pending = 3;
  #disconnected = false;
  /** Tells the writer that its chunk was taken; at most one chunk is under way. */
  #taken: (() => void) | undefined;

  constructor(client: Client, socket: Duplex, channel: ClientChannel) {
    super({ allowHalfOpen: false });
    this.#client = client;
    this.#socket = socket;
    this.#channel = channel;
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
    // A PTY has one output; a server that sends stderr all the same gets it merged.
    for (const output of [channel, channel.stderr]) {
      output.on('data', (chunk: Buffer) => this.#receive(chunk));
      output.on('end', () => this.#oneEnded());
      output.on('error', () => {}); // Only writes after the end; the channel's close follows.
    }
    channel.on('exit', (code: number | null, signal?: string) => {
      this.#end = { code, signal: signal ?? null };
    });
    channel.on('close', () => {
      this.#settleWrite();
      this.#oneEnded();
    });
    client.on('close', () => {
      this.#disconnected = true;
      this.#settleWrite();
    });
    socket.on('data', (chunk: Buffer) => {
      this.#watchWindow();
      if (!this.destroyed) turns.heard(socket, chunk.length);
    });
    socket.on('close', () => turns.leave(socket));
  }

  #receive(chunk: Buffer): void {
    if (this.destroyed || this.push(chunk)) return;
    this.#channel.pause();
    this.#channel.stderr.pause();
  }

  #oneEnded(): void {
    this.#pending--;
    if (this.#pending > 0 || this.destroyed) return;
    if (this.#end === undefined && this.#disconnected) {
      this.destroy(new EngineError('unavailable', 'The connection to the container was lost.'));
      return;
    }
    this.push(null);
  }

  #watchWindow(): void {
    if (this.#channel.readableLength + this.#channel.stderr.readableLength <= MAX_UNREAD_BYTES) return;
    this.destroy(new EngineError('unavailable', 'The container sent more than it was allowed to.'));
  }

  #settleWrite(): void {
    const taken = this.#taken;
    this.#taken = undefined;
    taken?.();
  }

  override _read(): void {
    this.#channel.resume();
    this.#channel.stderr.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, taken: () => void): void {
    if (this.#disconnected || !this.#channel.writable) {
      taken(); // The end is on its way to the reader; nobody is left to type to.
      return;
    }
    this.#taken = taken;
    this.#channel.write(chunk, () => {
      if (this.#socket.writableNeedDrain) this.#socket.once('drain', () => this.#settleWrite());
      else this.#settleWrite();
    });
  }

  override _final(done: () => void): void {
    this.#channel.end();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#settleWrite();
    this.#channel.close();
    turns.leave(this.#socket);
    this._read(); // Lets what still comes in run out.
    hangUp(this.#client, this.#socket);
    this.#resolveEnded(this.#end ?? { code: null, signal: null });
    done(error);
  }
}
