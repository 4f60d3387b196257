/**
 * Commands that a holder keeps in their container (command-holder-script.ts), seen through a bridge to it that
 * `Engine.run` runs: whatever becomes of that connection, the command goes on, and what it prints is kept.
 */
import { errorText } from '../../../lib/errors.ts';
import { type Engine, EngineError } from '../../../proto/ports/engine.ts';
import {
  type InputProgress,
  type KeptCommand,
  type KeptCommandEnd,
  KeptCommandError,
  type KeptCommandListener,
  type KeptCommandRequest,
  type KeptCommands,
} from '../../../proto/ports/kept-command.ts';
import { cells, type RunningCommand } from '../../../proto/ports/shell.ts';
import { cleanReason } from './calls.ts';
import { HolderFrames, numbersOf, OutgoingFrames } from './command-holder-frames.ts';
import { GREETING, type HolderAnswer, holderStart } from './command-holder-script.ts';

/** Folder in the containers for the sockets of holders. */
const FOLDER = '/run/troupe-commands';
const NAME = /^[A-Za-z0-9]{1,64}$/;
/** How long the bridge may take to answer, once it runs. */
const ANSWER_MS = 12_000;
/** What it may say before, and complain about. */
const MAX_ANSWER_BYTES = 1024;
/** Largest piece of input in a frame. */
const PIECE_BYTES = 32 * 1024;
/** What waits for the bridge, of all that is said: past it, it is no holder that reads. */
const MAX_WAITING_BYTES = 2 * 1024 * 1024;
/** So much may wait before whoever says it is held up. */
const FULL_BYTES = 256 * 1024;
/** How often the holder hears that we live. */
const PULSE_MS = 15_000;
/** How long a last word may take to reach the holder. */
const CANCEL_MS = 10_000;
/** How long a command that may have begun has to answer once nobody waits for it any more: it is left or ended then. */
const LEFT_MS = 3000;

/** Kept commands over an engine. `folder`: where in the containers the sockets of their holders are. */
export function keptCommands(engine: Pick<Engine, 'run'>, folder = FOLDER): KeptCommands {
  return {
    async open(containerId, request, signal) {
      const { name, start } = request;
      if (!NAME.test(name)) throw new TypeError('a name of letters and digits');
      const size = start?.terminal;
      const terminal = size && { cols: cells(size.cols), rows: cells(size.rows) };
      const begin = start && { start: { words: start.words, terminal } };
      const { words, input } = holderStart({ folder, name, ...begin });
      const bridge = await engine.run(containerId, words, signal);
      let last: NodeJS.Timeout | undefined;
      const left = () => {
        last = setTimeout(() => bridge.close(), LEFT_MS);
      };
      try {
        // Nothing has begun.
        if (signal.aborted) throw new EngineError('unavailable', 'Given up.', { cause: signal.reason });
        signal.addEventListener('abort', left, { once: true });
        bridge.stdin.write(input);
        const rest = await answerOf(bridge);
        return await BridgedCommand.join(bridge, rest, request);
      } catch (error) {
        bridge.close();
        throw error;
      } finally {
        signal.removeEventListener('abort', left);
        clearTimeout(last);
      }
    },
  };
}

const REFUSALS: Readonly<Record<Exclude<HolderAnswer, 'held'>, KeptCommandError>> = {
  gone: new KeptCommandError('gone', 'there is no such command any more'),
  full: new KeptCommandError('unable', 'as many commands as may be are kept in this container'),
};

/** Reads the first line of a bridge, and gives what comes after it. Rejects unless the command is held. */
function answerOf({ stdout, stderr, ended }: RunningCommand): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let head = Buffer.alloc(0);
    let complaint = '';
    const settle = () => {
      clearTimeout(timer);
      stdout.off('data', onData).pause();
    };
    const fail = (why: string) => {
      settle();
      const said = cleanReason(complaint);
      reject(
        new KeptCommandError('unable', /perl: not found|not found.*perl/.test(said) ? 'it has no perl' : said || why),
      );
    };
    const onData = (chunk: Buffer) => {
      head = Buffer.concat([head, chunk]);
      const end = head.indexOf('\n');
      if (end < 0 && head.length < MAX_ANSWER_BYTES) return;
      const line = head.toString('latin1', 0, Math.max(end, 0));
      const word = line.startsWith(GREETING) ? line.slice(GREETING.length) : '';
      if (word === 'held') {
        settle();
        resolve(head.subarray(end + 1));
      } else if (word === 'gone' || word === 'full') {
        settle();
        reject(REFUSALS[word]);
      } else fail('something else answers');
    };
    const timer = setTimeout(() => fail('what keeps commands did not answer in time'), ANSWER_MS);
    stderr.on('data', (chunk: Buffer) => {
      complaint = (complaint + chunk.toString()).slice(0, MAX_ANSWER_BYTES);
    });
    stdout.on('data', onData);
    // Once all of its complaint is there.
    void ended.then(() => fail('what keeps commands ended at once'));
  });
}

/** A command through its bridge. */
class BridgedCommand implements KeptCommand {
  readonly #bridge: RunningCommand;
  readonly #frames = new HolderFrames();
  readonly #said: OutgoingFrames;
  readonly #pulse: NodeJS.Timeout;
  #begun: { resolve(): void; reject(error: Error): void } | undefined;
  #listener: KeptCommandListener | undefined;
  #last: NodeJS.Timeout | undefined;
  #isOver = false;
  #isFull = false;
  #isExited = false;
  /** Why it will be over, or is. */
  #why: KeptCommandEnd = 'lost';
  cursor = 0;
  input: InputProgress = { received: 0, written: 0 };

  /** Resolves once the holder says where the output begins. */
  static async join(bridge: RunningCommand, rest: Buffer, request: KeptCommandRequest): Promise<BridgedCommand> {
    const command = new BridgedCommand(bridge);
    const { since, lingerMs, lifeMs } = request;
    const life = Number.isFinite(lifeMs) ? String(Math.max(0, Math.trunc(lifeMs))) : 'inf';
    try {
      await new Promise<void>((resolve, reject) => {
        const late = new KeptCommandError('unable', 'what keeps commands did not answer in time');
        const timer = setTimeout(() => reject(late), ANSWER_MS);
        const settled = (settle: () => void) => {
          clearTimeout(timer);
          settle();
        };
        command.#begun = { resolve: () => settled(resolve), reject: (error) => settled(() => reject(error)) };
        command.#say('J', `${since} ${Math.trunc(lingerMs)} ${life}`);
        command.#receive(rest);
        bridge.stdout.resume();
      });
    } catch (error) {
      command.leave();
      throw error;
    }
    return command;
  }

  constructor(bridge: RunningCommand) {
    this.#bridge = bridge;
    this.#said = new OutgoingFrames(bridge.stdin, () => this.#bound());
    this.#pulse = setInterval(() => this.#say('P'), PULSE_MS);
    bridge.stdout.on('data', (chunk: Buffer) => this.#receive(chunk)).on('close', () => this.#ended());
  }

  listen(listener: KeptCommandListener): void {
    this.#listener = listener;
    this.#receive(Buffer.alloc(0));
    if (this.#isOver) listener.over(this.#why);
    else this.#bridge.stdout.resume();
  }

  acknowledge(cursor: number): void {
    this.#say('A', String(cursor));
  }

  write(data: Uint8Array): void {
    for (let at = 0; at < data.length; at += PIECE_BYTES) this.#say('I', data.subarray(at, at + PIECE_BYTES));
  }

  endInput(): void {
    this.#say('E');
  }

  resize(cols: number, rows: number): void {
    this.#say('S', `${cells(cols)} ${cells(rows)}`);
  }

  pause(): void {
    this.#bridge.stdout.pause();
  }

  resume(): void {
    if (this.#listener !== undefined) this.#bridge.stdout.resume();
  }

  cancel(): void {
    if (this.#isOver || this.#last !== undefined) return;
    this.#say('H');
    // The holder ends the connection.
    this.#listener = undefined;
    this.#last = setTimeout(() => this.leave(), CANCEL_MS);
    this.#bridge.stdout.resume();
  }

  leave(): void {
    this.#end();
    this.#bridge.close();
  }

  #say(letter: string, data: Uint8Array | string = ''): void {
    if (this.#isOver) return;
    this.#said.say(letter, data);
    this.#bound();
  }

  /** What is in a container may say that it took all, and take nothing. */
  #bound(): void {
    const { cost } = this.#said;
    if (cost > MAX_WAITING_BYTES) {
      this.#why = 'full';
      this.#ended();
    }
    const isFull = cost > FULL_BYTES;
    if (this.#isOver || isFull === this.#isFull) return;
    this.#isFull = isFull;
    this.#listener?.full(isFull);
  }

  #receive(chunk: Buffer): void {
    if (this.#isOver) return;
    this.#frames.push(chunk);
    try {
      // Whoever listens may end it.
      while (!this.#isOver && (this.#begun !== undefined || this.#listener !== undefined || this.#last !== undefined)) {
        const frame = this.#frames.next();
        if (frame === undefined) return;
        this.#take(frame.letter, frame.data);
      }
    } catch (error) {
      this.#begun?.reject(new KeptCommandError('unable', errorText(error)));
      this.#bridge.close();
    }
    if (!this.#isOver) this.#bridge.stdout.pause();
  }

  #take(letter: string, data: Buffer): void {
    switch (letter) {
      case 'B': {
        const [cursor = 0, received = 0, written = 0] = numbersOf(data);
        this.cursor = cursor;
        this.input = { received, written };
        this.#begun?.resolve();
        this.#begun = undefined;
        return;
      }
      case 'O':
        if (data.length > 1) this.#listener?.output(data);
        return;
      case 'C': {
        const [received = 0, written = 0] = numbersOf(data);
        this.#listener?.input({ received, written });
        return;
      }
      case 'X':
        if (this.#isExited) return;
        this.#isExited = true;
        this.#listener?.exit(numbersOf(data)[0] ?? 0);
        return;
      case 'T':
        this.#why = 'taken';
        this.#begun?.reject(new KeptCommandError('gone', 'another connection has the command'));
        return;
    }
  }

  /** The bridge has ended: the holder did, or the connection to it. */
  #ended(): void {
    if (this.#isOver) return;
    this.#end();
    this.#bridge.close();
    this.#begun?.reject(new KeptCommandError('unable', 'what keeps commands ended at once'));
    this.#listener?.over(this.#why);
  }

  #end(): void {
    this.#isOver = true;
    clearInterval(this.#pulse);
    clearTimeout(this.#last);
  }
}
