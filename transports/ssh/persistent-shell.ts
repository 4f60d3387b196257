/**
 * A shell that a holder keeps in its container (shell-holder-script.ts), seen through the SSH channel of a bridge to
 * it. Bounded both ways without stopping the channel: the holder sends no more than what was confirmed allows, and
 * takes no more input than it confirmed.
 */

import { constants } from 'node:os';
import { Duplex } from 'node:stream';
import type { Client, ClientChannel } from 'ssh2';
import { holderFrame } from '../../lib/holder-script.ts';
import { withoutQueries } from '../../lib/terminal-queries.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { cells, type KeptShell, type Shell, type ShellEnd, type ShellKeeping } from '../../proto/ports/shell.ts';
import {
  HolderFrameReader,
  INPUT_BYTES,
  lookFrame,
  OUTPUT_BYTES,
  seenFrame,
  sizeFrame,
} from './shell-holder-frames.ts';
import { HELLO, type HolderArguments, holderCommand, holderProgram } from './shell-holder-script.ts';
import { hangUp, turns } from './shell-stream.ts';

/** Past this many unread bytes it is no holder that speaks. */
const MAX_UNREAD_BYTES = 1024 * 1024;
/** Bytes that are confirmed together. */
const CONFIRM_BYTES = OUTPUT_BYTES / 8;
/** Largest piece of input in a frame. */
const PIECE_BYTES = 16 * 1024;
/** How often the holder hears that we live. */
const PULSE_MS = 15_000;
/** How long what was said last may take to reach the holder, before the connection is ended anyway. */
const CLOSE_MS = 10_000;

/** Makes the Shell of a bridge that has said hello, and looks at it. Takes over all three, as `shellOver` does. */
export function persistentShellOver(
  client: Client,
  socket: Duplex,
  channel: ClientChannel,
  times: Pick<ShellKeeping, 'lingerMs' | 'lifeMs'>,
): Shell {
  const stream = new KeptStream(client, socket, channel);
  stream.look(times);
  return {
    stream,
    resize: (cols, rows) => stream.say(sizeFrame(cells(cols), cells(rows))),
    close: () => stream.hangUp(),
    ended: stream.ended,
    kept: stream,
  };
}

class KeptStream extends Duplex implements KeptShell {
  readonly ended: Promise<ShellEnd>;
  isTaken = false;
  readonly #client: Client;
  readonly #socket: Duplex;
  readonly #channel: ClientChannel;
  readonly #reader: HolderFrameReader;
  readonly #pulse: NodeJS.Timeout;
  #resolveEnded: (end: ShellEnd) => void = () => {};
  #end: ShellEnd | undefined;
  /** Answers to `L` that are still to come: what comes before the last of them was for somebody else. */
  #looks = 0;
  #seen = 0;
  /** What is shown again, until all of it is here, and how much of it is still to come. */
  #again: Buffer[] = [];
  #againBytes = 0;
  /** Input that the holder may be sent now. */
  #credit = INPUT_BYTES;
  /** Input that waits for that, and who is told when it was sent. */
  #input: { rest: Buffer; readonly taken: () => void } | undefined;
  #isOver = false;

  constructor(client: Client, socket: Duplex, channel: ClientChannel) {
    super({ allowHalfOpen: false, readableHighWaterMark: MAX_UNREAD_BYTES });
    this.#client = client;
    this.#socket = socket;
    this.#channel = channel;
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
    this.#reader = new HolderFrameReader((letter, data) => this.#take(letter, data));
    this.#pulse = setInterval(() => this.say(holderFrame('P')), PULSE_MS);
    const over = () => this.#lost();
    channel.on('data', (chunk: Buffer) => this.#receive(chunk));
    channel.on('end', over).on('close', over).on('error', over);
    client.on('close', over);
    socket.on('data', (chunk: Buffer) => {
      if (!this.#isOver) turns.heard(socket, chunk.length);
    });
    socket.on('close', () => turns.leave(socket));
    channel.resume();
  }

  look({ lingerMs, lifeMs }: Pick<ShellKeeping, 'lingerMs' | 'lifeMs'>): void {
    this.#looks++;
    this.#seen = 0;
    this.#again = [];
    this.#againBytes = 0;
    while (this.readableLength > 0 && this.read() !== null);
    this.say(lookFrame(lingerMs, lifeMs));
  }

  wait(): void {
    this.#confirm();
    this.say(holderFrame('W'));
  }

  seen(bytes: number): void {
    if (this.#looks > 0) return; // Of what was shown to somebody else.
    this.#seen += bytes;
    if (this.#seen >= CONFIRM_BYTES) this.#confirm();
  }

  leave(): void {
    this.#part(this.#input === undefined ? [] : [holderFrame('I', this.#input.rest)]);
  }

  /** The shell gets SIGHUP. */
  hangUp(): void {
    this.#part([holderFrame('H')]);
  }

  /** Sends a frame, unless it is too late. */
  say(data: Buffer): void {
    if (!this.#isOver && this.#channel.writable) this.#channel.write(data);
  }

  #confirm(): void {
    if (this.#seen > 0) this.say(seenFrame(this.#seen));
    this.#seen = 0;
  }

  #receive(chunk: Buffer): void {
    if (this.#isOver) return;
    if (!this.#reader.push(chunk) || this.readableLength > MAX_UNREAD_BYTES)
      this.destroy(new EngineError('unavailable', 'What keeps the shell in the container cannot be understood.'));
  }

  #take(letter: string, data: Buffer): void {
    if (this.#isOver) return;
    switch (letter) {
      case 'R':
        this.#looks = Math.max(0, this.#looks - 1);
        this.#againBytes = data.length === 4 ? data.readUInt32BE() : 0;
        return;
      case 'O':
        if (this.#looks === 0) this.#print(data);
        return;
      case 'C':
        this.#credit = Math.min(INPUT_BYTES, this.#credit + (data.length === 4 ? data.readUInt32BE() : 0));
        this.#type();
        return;
      case 'X': {
        const [code = 0, signal = 0] = data;
        this.#end = signal === 0 ? { code, signal: null } : { code: null, signal: signalName(signal) };
        this.push(null);
        return;
      }
      case 'T':
        this.isTaken = true;
        this.destroy();
        return;
    }
  }

  /** What is shown again goes on as a whole, without questions to the terminal: one may lie across two frames. */
  #print(data: Buffer): void {
    const again = data.subarray(0, this.#againBytes);
    const rest = data.subarray(again.length);
    if (again.length > 0) {
      this.#again.push(again);
      this.#againBytes -= again.length;
      if (this.#againBytes > 0) return;
      const whole = Buffer.concat(this.#again);
      const shown = withoutQueries(whole);
      this.#again = [];
      if (shown.length > 0) this.push(shown);
      this.seen(whole.length - shown.length);
    }
    if (rest.length > 0) this.push(rest);
  }

  /** The channel has ended, and nobody said why. */
  #lost(): void {
    if (this.#isOver || this.#end !== undefined) return;
    this.destroy(new EngineError('unavailable', 'The connection to the container was lost.'));
  }

  #type(): void {
    const input = this.#input;
    if (input === undefined) return;
    while (this.#credit > 0 && input.rest.length > 0) {
      const piece = input.rest.subarray(0, Math.min(PIECE_BYTES, this.#credit));
      this.#credit -= piece.length;
      input.rest = input.rest.subarray(piece.length);
      this.say(holderFrame('I', piece));
    }
    if (input.rest.length > 0) return;
    this.#input = undefined;
    input.taken();
  }

  /** Says the last words, and ends the connection once they were heard. */
  #part(words: readonly Buffer[]): void {
    if (this.#isOver) return;
    for (const word of words) this.say(word);
    this.destroy();
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, taken: () => void): void {
    if (this.#isOver || !this.#channel.writable) {
      taken(); // The end is on its way to the reader; nobody is left to type to.
      return;
    }
    this.#input = { rest: chunk, taken };
    this.#type();
  }

  override _final(done: () => void): void {
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#isOver = true;
    clearInterval(this.#pulse);
    this.#input?.taken();
    this.#input = undefined;
    turns.leave(this.#socket);
    this.#closeConnection();
    this.#resolveEnded(this.#end ?? { code: null, signal: null });
    done(error);
  }

  /** Ends the connection once the holder has heard all: it answers the end of our half with that of its own. */
  #closeConnection(): void {
    const client = this.#client;
    const socket = this.#socket;
    const channel = this.#channel;
    channel.resume();
    channel.stderr.resume();
    if (!channel.writable || socket.destroyed) {
      hangUp(client, socket);
      return;
    }
    const end = () => {
      clearTimeout(timer);
      hangUp(client, socket);
    };
    const timer = setTimeout(end, CLOSE_MS);
    channel.once('close', end);
    client.once('close', end);
    channel.end();
  }
}

/** The name of a signal on this kind of machine, as `SIGHUP`. */
function signalName(number: number): string {
  return Object.entries(constants.signals).find(([, value]) => value === number)?.[0] ?? `SIG${number}`;
}

/** What a login may print before the bridge says hello. */
const MAX_BEFORE_BYTES = 64 * 1024;
/** How long the bridge may take to say it. */
const HELLO_MS = 8000;
/** What it complains about, as far as it is kept. */
const MAX_COMPLAINT = 500;

/**
 * Resolves, in the turn in which it says hello, with its channel, paused. Rejects when the container cannot run it (no
 * perl, no place for sockets, no terminals), when it takes too long, and when the connection is lost.
 */
export function openBridge(client: Client, options: HolderArguments): Promise<ClientChannel> {
  return new Promise((resolve, reject) => {
    client.exec(holderCommand(options), (cause, channel) => {
      if (cause) reject(cause);
      else awaitHello(client, channel).then(resolve, reject);
    });
  });
}

function awaitHello(client: Client, channel: ClientChannel): Promise<ClientChannel> {
  return new Promise((resolve, reject) => {
    let before = Buffer.alloc(0);
    let complaint = '';
    const settle = () => {
      clearTimeout(timer);
      channel.off('data', onData).off('close', onClose).off('end', onClose);
      client.off('close', onClose);
    };
    const fail = (text: string) => {
      settle();
      channel.on('error', () => {}).resume();
      channel.close();
      reject(new Error(complaint === '' ? text : `${text}: ${complaint}`));
    };
    const onClose = () => fail('it ended');
    const onData = (chunk: Buffer) => {
      before = Buffer.concat([before, chunk]);
      const at = before.indexOf(HELLO);
      if (at < 0 && before.length <= MAX_BEFORE_BYTES) return;
      // A holder speaks when it is spoken to: nothing comes after the hello.
      if (at + HELLO.length !== before.length) {
        fail('something else answers');
        return;
      }
      settle();
      channel.pause();
      resolve(channel);
    };
    const timer = setTimeout(() => fail('it did not answer in time'), HELLO_MS);
    channel.on('data', onData).on('close', onClose).on('end', onClose);
    channel.stderr.setEncoding('utf8').on('data', (text: string) => {
      complaint = (complaint + text).slice(0, MAX_COMPLAINT);
    });
    client.on('close', onClose);
    channel.write(holderProgram);
  });
}
