/**
 * The threads that hash passwords. They stand beside libuv's pool, so that a storm of logins delays no file and no name
 * look-up, and below the event loop in priority, so that it delays no timer.
 */
import { Worker } from 'node:worker_threads';
import { CodedError, errorText } from '../../../lib/errors.ts';
import { type HashAnswer, type HashJob, hashAnswer } from './hash-jobs.ts';

/** A thread ended before it answered. */
export class HashThreadError extends CodedError<'hash_thread_ended'> {
  constructor(cause: unknown) {
    const why = cause === undefined ? '' : `: ${errorText(cause)}`;
    super('hash_thread_ended', `A thread that hashes passwords has ended${why}`, { cause });
  }
}

interface HashThreadsOptions {
  /** At most so many. They start when they are needed. */
  readonly threads: number;
  /** A thread without work ends after this many ms: it holds megabytes. */
  readonly idleMs?: number;
  /** The module that they run. Default: hash-thread.ts. */
  readonly body?: URL;
}

interface ThreadJob {
  readonly answer: (result: HashAnswer['result']) => void;
  readonly fail: (error: Error) => void;
}

const isSource = import.meta.url.endsWith('.ts');
/** The file beside this one, as source or built. */
const BODY = new URL(isSource ? './hash-thread.ts' : './hash-thread.js', import.meta.url);
/** What a thread begins with. From source, in development, it has to learn TypeScript first: it inherits no hooks. */
const entry = (body: URL) =>
  `${isSource ? "import('tsx/esm/api').then((tsx) => tsx.register())" : 'Promise.resolve()'}.then(() => ` +
  `import('${body.href}'))`;

export class HashThreads {
  readonly #threads: number;
  readonly #idleMs: number;
  readonly #body: URL;
  readonly #living = new Set<HashThread>();

  constructor({ threads, idleMs = 60_000, body = BODY }: HashThreadsOptions) {
    this.#threads = threads;
    this.#idleMs = idleMs;
    this.#body = body;
  }

  /** How many there are now. */
  get size(): number {
    return this.#living.size;
  }

  /** Runs a job in the thread that has least to do. Rejects with HashThreadError when that thread ends. */
  run(job: Omit<HashJob, 'id'>): Promise<HashAnswer['result']> {
    return this.#leastBusy().run(job);
  }

  #leastBusy(): HashThread {
    let best: HashThread | undefined;
    for (const thread of this.#living) if (best === undefined || thread.pending < best.pending) best = thread;
    if (best !== undefined && (best.pending === 0 || this.#living.size >= this.#threads)) return best;
    const thread = new HashThread(this.#body, this.#idleMs, () => this.#living.delete(thread));
    this.#living.add(thread);
    return thread;
  }
}

/** One of them. It keeps the process alive only while somebody waits for it. */
class HashThread {
  readonly #worker: Worker;
  readonly #idleMs: number;
  readonly #waiting = new Map<number, ThreadJob>();
  readonly #onEnd: () => void;
  #nextId = 0;
  #idle: NodeJS.Timeout | undefined;
  #cause: unknown;

  constructor(body: URL, idleMs: number, onEnd: () => void) {
    this.#idleMs = idleMs;
    this.#onEnd = onEnd;
    this.#worker = new Worker(entry(body), { eval: true });
    this.#worker.unref();
    this.#worker.on('message', (message: unknown) => this.#answer(hashAnswer.parse(message)));
    this.#worker.on('error', (error) => {
      this.#cause = error;
    });
    this.#worker.on('exit', () => {
      clearTimeout(this.#idle);
      onEnd();
      for (const { fail } of this.#waiting.values()) fail(new HashThreadError(this.#cause));
      this.#waiting.clear();
    });
  }

  get pending(): number {
    return this.#waiting.size;
  }

  run(job: Omit<HashJob, 'id'>): Promise<HashAnswer['result']> {
    clearTimeout(this.#idle);
    if (this.#waiting.size === 0) this.#worker.ref();
    const id = this.#nextId++;
    return new Promise((answer, fail) => {
      this.#waiting.set(id, { answer, fail });
      this.#worker.postMessage({ id, ...job } satisfies HashJob);
    });
  }

  #answer({ id, result }: HashAnswer): void {
    this.#waiting.get(id)?.answer(result);
    this.#waiting.delete(id);
    if (this.#waiting.size > 0) return;
    this.#worker.unref();
    this.#idle = setTimeout(() => {
      this.#onEnd(); // Before it ends: nobody gives it work meanwhile.
      void this.#worker.terminate();
    }, this.#idleMs).unref();
  }
}
