/** The notification service as a process of its own, which can be killed and started again. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { firstLine, spawnTroupe } from '../cluster/platform.ts';
import { pause } from '../pause.ts';

/** `troupe notify` on one port, whether it runs or not. */
export class ServiceProcess {
  readonly #port: number;
  readonly #env: Record<string, string>;
  #child: ReturnType<typeof spawnTroupe> | undefined;
  #log = '';

  constructor(port: number, env: Record<string, string>) {
    this.#port = port;
    this.#env = env;
  }

  /** Starts it unless it runs, again and again while it cannot start (PostgreSQL may be away). */
  async start(): Promise<void> {
    for (let attempt = 1; this.#child === undefined || hasEnded(this.#child); attempt++) {
      // What ends it is a defect, unless it was us.
      assert.equal(this.#child?.signalCode ?? null, null, `the service ended by itself:\n${this.#log}`);
      const child = spawnTroupe(['notify', '-addr', `127.0.0.1:${this.#port}`, '--json'], this.#env);
      this.#log = '';
      child.stderr.on('data', (chunk: Buffer) => {
        this.#log = (this.#log + chunk).slice(-4000);
      });
      this.#child = child;
      if ((await firstLine(child)) !== undefined) return;
      this.#child = undefined;
      assert.ok(attempt < 30, `the service does not start:\n${this.#log}`);
      await pause(200, 'retry');
    }
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** SIGKILL; resolves once it is gone. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || hasEnded(child)) {
      assert.equal(child?.signalCode ?? null, null, `the service ended by itself:\n${this.#log}`);
      return;
    }
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }

  end(): Promise<void> {
    return this.kill();
  }
}

function hasEnded({ exitCode, signalCode }: ReturnType<typeof spawnTroupe>): boolean {
  return exitCode !== null || signalCode !== null;
}
