/** Requests to one container through the gateway, at a steady rate. */
import { once } from 'node:events';
import { Agent, request as httpRequest } from 'node:http';
import WebSocket from 'ws';
import { pause } from '../pause.ts';
import { until } from '../until.ts';

const MOST_OPEN = 2000;

/** What came of them. */
export interface LoadOutcome {
  readonly requests: number;
  /** What failed, in words. */
  readonly failures: readonly string[];
  /** What was answered, each in the order in which it was answered first. */
  readonly versions: readonly string[];
}

/** Requests at a steady rate, over kept connections. */
export class SteadyLoad {
  last = '';
  readonly #options: { readonly port: number; readonly host: string };
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 128 });
  readonly #versions = new Set<string>();
  readonly #failures: string[] = [];
  readonly #answered = new Set<string>();
  #requests = 0;
  #open = 0;
  #path: string | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(port: number, host: string) {
    this.#options = { port, host };
  }

  get outcome(): LoadOutcome {
    return { requests: this.#requests, failures: this.#failures, versions: [...this.#versions] };
  }

  /** The text of an answer of status 200. Rejects otherwise. */
  ask(method: string, path = '/', body?: string): Promise<string> {
    const { port, host } = this.#options;
    return new Promise((resolve, reject) => {
      const options = { host: '127.0.0.1', port, method, path, headers: { host }, agent: this.#agent };
      const asked = httpRequest(options);
      asked.setTimeout(30_000, () => asked.destroy(new Error('no answer within 30 s')));
      asked.on('error', reject).on('response', (response) => {
        let text = '';
        response.on('error', reject).on('data', (chunk: Buffer) => (text += chunk));
        response.on('end', () =>
          response.statusCode === 200 ? resolve(text) : reject(new Error(`${response.statusCode} ${text}`)),
        );
      });
      asked.end(body);
    });
  }

  /** What was said last over a WebSocket, and with what it was closed. `isShort`: by us, once something was said. */
  async openSocket(isShort = false): Promise<{ readonly said: string; readonly code: number }> {
    const { port, host } = this.#options;
    const socket = new WebSocket(`ws://127.0.0.1:${port}/`, { headers: { host } });
    let said = '';
    socket.on('message', (message: Buffer) => {
      said = message.toString();
      if (isShort) socket.close(1000);
    });
    const [code]: unknown[] = await once(socket, 'close');
    return { said, code: Number(code) };
  }

  /** A WebSocket that is kept open. `end` says whether it still was, and went on. */
  async keepSocket(): Promise<{ end(): Promise<boolean> }> {
    await until(async () => (await this.ask('GET').catch(() => '')) !== '', {
      what: 'it is served',
      timeoutMs: 60_000,
    });
    const { port, host } = this.#options;
    const socket = new WebSocket(`ws://127.0.0.1:${port}/`, { headers: { host } });
    let said = 0;
    socket.on('message', () => (said += 1));
    await once(socket, 'open');
    return {
      end: async () => {
        const before = said;
        await pause(500, 'pace');
        const lives = socket.readyState === WebSocket.OPEN && said > before;
        socket.terminate();
        this.#agent.destroy();
        return lives;
      },
    };
  }

  /** What of the program's lines is there twice, and what it answered and has not. */
  wrongPosts(text: string): string[] {
    const lines = text.split('\n').filter((line) => line !== '');
    const seen = new Set(lines);
    const twice = lines.filter((line, at) => lines.indexOf(line) !== at);
    return [...twice, ...[...this.#answered].filter((line) => !seen.has(line))];
  }

  /** Begins; with a `path`, all ask for that, and nothing is posted. */
  begin(perSecond: number, path?: string): void {
    this.#path = path;
    const begun = performance.now();
    this.#timer = setInterval(() => {
      const due = ((performance.now() - begun) / 1000) * perSecond;
      while (this.#requests < due && this.#open < MOST_OPEN) this.#one();
    }, 2);
  }

  async end(): Promise<void> {
    clearInterval(this.#timer);
    await until(() => this.#open === 0, { what: 'the last answers', timeoutMs: 40_000 });
    this.#agent.destroy();
  }

  #one(): void {
    this.#requests += 1;
    this.#open += 1;
    const body = this.#path === undefined && this.#requests % 10 === 0 ? `post ${this.#requests}` : undefined;
    const method = body === undefined ? 'GET' : 'POST';
    this.ask(method, this.#path ?? '/', body)
      .then(
        (version) => {
          this.last = version;
          if (body !== undefined) this.#answered.add(body);
          this.#versions.add(version);
        },
        (error: unknown) => void this.#failures.push(`${method}: ${String(error)}`),
      )
      .finally(() => {
        this.#open -= 1;
      });
  }
}
