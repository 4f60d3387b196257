/** A command in a container, over the socket of the endpoint, with bounded output. */
import { TroupeError } from '../../../client/index.ts';
import type { ToolContext } from './tool.ts';

interface CommandRequest {
  readonly id: string;
  /** One is a script for /bin/sh; several are a program and its arguments. */
  readonly command: readonly string[];
  readonly input: string;
  /** After which it is ended, ms. */
  readonly timeoutMs: number;
  /** Bytes kept of each output: the last ones. */
  readonly maxBytes: number;
}

/** What came of it. */
interface CommandOutcome {
  /** Undefined if the time was over first. */
  readonly code: number | undefined;
  readonly stdout: BoundedOutput;
  readonly stderr: BoundedOutput;
}

/** Longest piece of output. */
const MAX_FRAME = 64 * 1024;

/**
 * Runs a command once. After a lost connection it is joined again, where its container can keep it. Rejects with
 * TroupeError.
 */
export async function runCommand(request: CommandRequest, { client, signal }: ToolContext): Promise<CommandOutcome> {
  const { id, command, input, timeoutMs, maxBytes } = request;
  const stdout = new BoundedOutput(maxBytes);
  const stderr = new BoundedOutput(maxBytes);
  const running = client.follow.command({
    id,
    command,
    onOpen() {
      running.write(Buffer.from(input));
      running.end();
    },
    onOutput: (bytes, stream) => (stream === 2 ? stderr : stdout).add(bytes),
  });
  let isOver = false;
  const timer = setTimeout(() => {
    isOver = true;
    running.close();
  }, timeoutMs);
  const stop = () => running.close();
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    const code = await running.done;
    if (code === undefined && !isOver) throw new TroupeError('cancelled', 'The call was cancelled.');
    return { code, stdout, stderr };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
  }
}

/** The end of an output. */
class BoundedOutput {
  readonly #max: number;
  #chunks: Buffer[] = [];
  #kept = 0;
  #all = 0;

  constructor(max: number) {
    this.#max = max;
  }

  add(chunk: Uint8Array): void {
    this.#all += chunk.length;
    this.#kept += chunk.length;
    this.#chunks.push(Buffer.from(chunk));
    // Joined now and then, so that many small pieces cost little.
    if (this.#kept > 2 * this.#max + MAX_FRAME) this.#join();
  }

  /** Bytes that came. */
  get bytes(): number {
    return this.#all;
  }

  get isCut(): boolean {
    return this.#all > this.#max;
  }

  /** What is kept. It begins with a whole character. */
  text(): string {
    const bytes = this.#join();
    let at = 0;
    if (this.isCut) while (at < 4 && ((bytes[at] ?? 0) & 0xc0) === 0x80) at++;
    return bytes.toString('utf8', at);
  }

  #join(): Buffer {
    const all = Buffer.concat(this.#chunks);
    const bytes = all.subarray(Math.max(0, all.length - this.#max));
    this.#chunks = [bytes];
    this.#kept = bytes.length;
    return bytes;
  }
}
