/** A session of a login to an account (RFC 4254 section 6): its commands run on the platform. */
import { PassThrough, Writable } from 'node:stream';
import type { Channel, Connection, ServerChannel, Session } from 'ssh2';
import type { SshAccount } from '../../../proto/gateway/ssh.ts';
import type { AccountCommands, AccountEvent, AccountTerminal } from '../../../proto/ports/account-commands.ts';
import { closeUnstarted, takesData } from './internals.ts';
import type { SshEnd } from './ssh-end.ts';

/** What a session needs of its login. */
interface AccountSessionDeps {
  readonly client: Connection;
  readonly end: SshEnd;
  readonly account: SshAccount;
  readonly address: string;
  readonly commands: AccountCommands;
  /** Aborted when the connection ends. */
  readonly gone: AbortSignal;
}

const TERM = /^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$/;
const MAX_SIDE = 1000;
/** Bytes that wait on their way in, and on their way out. */
const WAITING_BYTES = 64 * 1024;
/** As ssh(1) does, when the fault is not the command's. */
const FAILED = 255;
const EVENTS: Readonly<Record<string, AccountEvent>> = {
  INT: 'interrupt',
  TERM: 'hang up',
  HUP: 'hang up',
  KILL: 'hang up',
  QUIT: 'hang up',
};

/** Serves one. There are no files, no agents and no forwards here: whatever else is asked for is refused. */
export function serveAccountSession(session: Session, deps: AccountSessionDeps): void {
  const { client, end, account, address, commands, gone } = deps;
  const listeners = new Set<(event: AccountEvent) => void>();
  const tell = (event: AccountEvent) => {
    for (const listener of listeners) listener(event);
  };
  let terminal: AccountTerminal | undefined;
  let isPlain = false;
  let isStarted = false;

  session.on('env', (accept, reject, { key, val }: { key: string; val: string }) => {
    if (key !== 'NO_COLOR') return reject?.();
    isPlain = val !== '';
    accept?.();
  });
  session.on('pty', (accept, _reject, info) => {
    const name = 'term' in info && typeof info.term === 'string' && TERM.test(info.term) ? info.term : 'xterm';
    terminal = { name, cols: side(info.cols, 80), rows: side(info.rows, 24) };
    accept?.();
  });
  session.on('window-change', (accept, _reject, { cols, rows }) => {
    if (terminal !== undefined) terminal = { ...terminal, cols: side(cols, 80), rows: side(rows, 24) };
    tell('resize');
    accept?.();
  });
  session.on('signal', (accept, reject, { name }: { name: string }) => {
    const event = EVENTS[name];
    if (event === undefined) return reject?.();
    tell(event);
    accept?.();
  });
  session.on('close', () => {
    if (!isStarted) closeUnstarted(client, session);
  });

  const begin = (accept: () => ServerChannel, command: string | undefined): void => {
    const channel: ServerChannel | undefined = isStarted ? undefined : accept();
    if (channel === undefined) return;
    isStarted = true;
    const left = new AbortController();
    const leave = () => left.abort();
    gone.addEventListener('abort', leave, { once: true });
    end.whenClosed(channel, leave);
    for (const stream of [channel, channel.stderr]) stream.on('error', () => {});
    const input = channel.pipe(new PassThrough({ highWaterMark: WAITING_BYTES }));
    const output = new ChannelOutput(channel, end, (bytes) => channel.write(bytes));
    const errors = new ChannelOutput(channel, end, (bytes) => channel.stderr.write(bytes));
    const forget = end.watch(() => input.readableLength + output.writableLength + errors.writableLength);
    for (const stream of [input, output, errors]) stream.on('error', () => {});
    const run = commands.run({
      account,
      address,
      command,
      terminal: () => terminal,
      isPlain,
      input,
      output,
      errors,
      onEvent: (listener) => void listeners.add(listener),
      gone: left.signal,
    });
    const finish = async (code: number): Promise<void> => {
      await Promise.all([output.flushed(), errors.flushed()]);
      gone.removeEventListener('abort', leave);
      listeners.clear();
      forget();
      // What is still typed goes nowhere.
      channel.unpipe(input);
      input.destroy();
      channel.resume();
      if (!left.signal.aborted && takesData(channel)) {
        channel.exit(code);
        channel.eof();
      }
      channel.close();
    };
    void run.then(finish, () => finish(FAILED));
  };
  session.on('shell', (accept) => begin(accept, undefined));
  session.on('exec', (accept, _reject, { command }: { command: string }) => begin(accept, command));
  session.on('subsystem', (_accept, reject) => reject?.());
}

/** A side of a window, in characters: what a client says may be anything. */
function side(value: unknown, otherwise: number): number {
  return typeof value === 'number' && value >= 1 ? Math.min(value, MAX_SIDE) : otherwise;
}

/** One of the two outputs of a channel, which share its window: nothing is written beyond it (as in relay.ts). */
class ChannelOutput extends Writable {
  readonly #channel: Channel;
  readonly #end: SshEnd;
  readonly #send: (bytes: Buffer) => unknown;

  constructor(channel: Channel, end: SshEnd, send: (bytes: Buffer) => unknown) {
    super({ highWaterMark: WAITING_BYTES, decodeStrings: true });
    this.#channel = channel;
    this.#end = end;
    this.#send = send;
  }

  /** Resolves when all has been sent, or thrown away because nobody takes it. */
  flushed(): Promise<void> {
    return new Promise((resolve) => {
      if (this.destroyed || this.writableFinished) return resolve();
      this.once('close', resolve);
      this.end();
    });
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    let rest = chunk;
    const send = () => {
      while (rest.length > 0) {
        if (this.#end.socket.destroyed || !takesData(this.#channel)) return done();
        const room = this.#end.room(this.#channel);
        if (room === 0) return this.#end.whenRoom(this.#channel, send);
        this.#send(rest.subarray(0, room));
        rest = rest.subarray(room);
      }
      done();
    };
    send();
  }
}
