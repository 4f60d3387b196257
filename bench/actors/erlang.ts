import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';

/** Erlang/OTP with one scheduler, in a process of its own that lives until `end`. */
export interface Erlang {
  readonly version: string;
  /** Measures a row of actors.erl: units a second; for `bytes` the bytes a process. Rejects when Erlang ended. */
  measure(row: string, count: number): Promise<number>;
  end(): void;
}

const SOURCE = join(process.cwd(), 'bench/actors/erlang/actors.erl');

/** Compiles actors.erl and starts it. Gives undefined when there is no erl and erlc on the path, or they cannot do it. */
export function startErlang(): Erlang | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'troupe-bench-'));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  if (spawnSync('erlc', ['-o', folder, SOURCE], { stdio: 'ignore' }).status !== 0) {
    remove();
    return undefined;
  }
  const flags = ['+S', '1:1', '+P', '2000000', '-noinput', '-noshell', '-pa', folder];
  const release = 'io:format("~s",[erlang:system_info(otp_release)]),halt().';
  const version = spawnSync('erl', [...flags, '-eval', release], { encoding: 'utf8' });
  if (version.status !== 0) {
    remove();
    return undefined;
  }
  const child = spawn('erl', [...flags, '-s', 'actors', 'main'], { stdio: ['pipe', 'pipe', 'ignore'] });
  const lines = createInterface({ input: child.stdout });
  return {
    version: version.stdout.trim(),
    measure: (row, count) => measure(child, lines, row, count),
    end: () => {
      child.stdin.end();
      child.kill();
      remove();
    },
  };
}

async function measure(child: ChildProcess, lines: Interface, row: string, count: number): Promise<number> {
  const over = new AbortController();
  const answer = Promise.race([
    once(lines, 'line', { signal: over.signal }),
    once(lines, 'close', { signal: over.signal }).then(() => {
      throw new Error(`Erlang ended while measuring ${row}`);
    }),
  ]);
  child.stdin?.write(`${row} ${count}\n`);
  const [line] = await answer;
  over.abort();
  const [units, amount] = String(line).split(' ').map(Number);
  if (units === undefined || amount === undefined || !(amount > 0)) throw new Error(`Erlang said ${String(line)}`);
  return row === 'bytes' ? amount : (units / amount) * 1e9;
}
