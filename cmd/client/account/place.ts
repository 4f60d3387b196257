/** A session by SSH as the place of a command: its streams, and nothing of the platform's machine. */
import { type ClientOptions, TroupeClient } from '../../../client/index.ts';
import type { ClientTransport } from '../../../client/transport.ts';
import type { AccountChannel } from '../../../proto/ports/account-commands.ts';
import { ClientFailure, EXIT } from '../failure.ts';
import type { CommandInput, CommandPlace, OpenedClient } from '../place.ts';
import { SessionTransport } from './session-transport.ts';
import { AccountOutput, TerminalInput } from './terminal.ts';

/** As a shell counts what a hang-up ends: 128 and the signal. */
const HUNG_UP = 129;

/** What a place needs besides its channel. */
export interface AccountPlaceParts {
  readonly domain: string;
  /** The user's session, which never leaves the process. */
  readonly token: string;
  readonly transport: ClientTransport;
}

/** See CommandPlace. */
export class AccountPlace implements CommandPlace {
  readonly stdin: CommandInput;
  readonly stdout: AccountOutput;
  readonly stderr: AccountOutput;
  readonly environment: CommandPlace['environment'];
  readonly machine = undefined;
  readonly program: string;
  /** Resolves with an exit code when the command is to end without having its say. */
  readonly killed: Promise<number>;
  readonly #terminal: TerminalInput | undefined;
  readonly #open: (options: Pick<ClientOptions, 'onLimitWait'> | undefined) => OpenedClient;
  readonly #interrupts = new Set<() => void>();
  /** A Ctrl-C came before what was begun listens. */
  #isKept = false;
  readonly #stop = new AbortController();
  #kill: (code: number) => void = () => {};
  #code = 0;

  constructor(channel: AccountChannel, { domain, token, transport }: AccountPlaceParts) {
    const { account, terminal, isPlain, input, output, errors, gone } = channel;
    this.program = `ssh ${domain}`;
    this.killed = new Promise((resolve) => {
      this.#kill = resolve;
    });
    this.stdout = new AccountOutput(output, terminal);
    // A terminal has one screen for both.
    this.stderr = terminal() === undefined ? new AccountOutput(errors, terminal) : this.stdout;
    this.environment = { TERM: terminal()?.name ?? 'dumb', ...(isPlain ? { NO_COLOR: '1' } : {}) };
    this.#terminal =
      terminal() === undefined
        ? undefined
        : new TerminalInput(input, {
            echo: (bytes) => void this.stdout.write(bytes),
            interrupt: () => this.#interrupt(),
          });
    this.stdin = this.#terminal ?? input;
    const outputs = [...new Set([this.stdout, this.stderr])];
    for (const stream of [this.stdin, ...outputs]) stream.on('error', () => {}).setMaxListeners(50);
    const url = `https://${domain}`;
    const { userId, username } = account;
    const ofSession = new SessionTransport(transport, outputs, this.#stop.signal);
    this.#open = (options) => ({
      client: new TroupeClient({ url, token, transport: ofSession, ...options }),
      // The token is not for commands: none prints it here.
      profile: { name: 'ssh', url, token: '', username, userId },
    });
    channel.onEvent((event) => {
      if (event === 'resize') this.stdout.emit('resize');
      else if (event === 'interrupt') this.#interrupt();
      else this.kill(HUNG_UP);
    });
    if (gone.aborted) this.kill(HUNG_UP);
    else gone.addEventListener('abort', () => this.kill(HUNG_UP), { once: true });
  }

  /** What the command ended with. */
  get exitCode(): number {
    return this.#code;
  }

  /** Ends the command with a code: what it waits for fails. Without one it has ended by itself. */
  kill(code?: number): void {
    if (this.#stop.signal.aborted) return;
    if (code !== undefined) this.#kill(code);
    this.#stop.abort();
    for (const listener of [...this.#interrupts]) listener();
    this.#terminal?.leave();
    if (this.#terminal === undefined) this.stdin.destroy();
  }

  open(profile: string | undefined, options?: Pick<ClientOptions, 'onLimitWait'>): OpenedClient {
    if (profile !== undefined)
      throw new ClientFailure('usage', 'By SSH there is one login, that of your key: leave out --profile.');
    return this.#open(options);
  }

  async ask(question: string): Promise<string> {
    this.stderr.write(question);
    const line = this.#stop.signal.aborted ? undefined : await this.#terminal?.readLine();
    if (line === undefined) throw new ClientFailure('interrupted', 'Interrupted.');
    return line.trim();
  }

  readonly onInterrupt = (listener: () => void): (() => void) => {
    this.#interrupts.add(listener);
    if (this.#isKept) queueMicrotask(listener);
    this.#isKept = false;
    return () => void this.#interrupts.delete(listener);
  };

  /** Called by the only listener at Ctrl-C: it is meant for what begins now, and is given to the next that listens. */
  keepInterrupt(): void {
    this.#isKept = this.#interrupts.size === 1;
  }

  /** What began has ended. */
  forgetInterrupt(): void {
    this.#isKept = false;
  }

  readonly onEnd = this.onInterrupt;

  exitWith(code: number): void {
    this.#code = code;
  }

  #interrupt(): void {
    if (this.#interrupts.size === 0) this.kill(EXIT.interrupted);
    else for (const listener of [...this.#interrupts]) listener();
  }
}
