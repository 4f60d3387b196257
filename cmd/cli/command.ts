/**
 * What commands on the platform's data share: they work beside a running platform, and print for people or for scripts.
 */
import { readEnvironment } from '../config/config.ts';
import { withDatabase } from '../node/database.ts';
import { openLog } from '../observability/log.ts';

/** Options that all of them take. */
export interface CommandOptions {
  readonly data: string;
  readonly json?: boolean;
}

/** Runs `work` on the database of the environment, or of the data folder. As `withDatabase`. */
export function onDatabase<T>(
  { data }: Pick<CommandOptions, 'data'>,
  work: Parameters<typeof withDatabase<T>>[3],
  prepare?: Parameters<typeof withDatabase<T>>[4],
): Promise<T> {
  const environment = readEnvironment(process.env);
  return withDatabase(environment, data, openLog(environment.LOG_LEVEL ?? 'error'), work, prepare);
}

/** Prints the result: `value` as JSON, or `text` for people. */
export function print({ json }: Pick<CommandOptions, 'json'>, value: unknown, text: () => string): void {
  process.stdout.write(`${json ? JSON.stringify(value) : text()}\n`);
}

/** A table for people: one line a row under `heads`, columns two spaces apart and as wide as their widest cell. */
export function tableLines(heads: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const table = [heads, ...rows];
  const widths = heads.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0)));
  return table.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}

/** Lines on a stream. On a terminal the last line of running work is replaced in place; what `keep` writes stays. */
export function progressOn(stream: NodeJS.WriteStream): {
  line(text: string): void;
  keep(text: string): void;
  done(): void;
} {
  let open = false;
  return {
    keep(text) {
      this.done();
      stream.write(`  ${text}\n`);
    },
    line(text) {
      const clean = text.replace(/[\p{Cc}]+/gu, ' ').trim();
      if (!stream.isTTY) {
        stream.write(`  ${clean}\n`);
        return;
      }
      stream.write(`\r\x1b[K  ${clean.slice(0, Math.max(20, (stream.columns || 80) - 3))}`);
      open = true;
    },
    done() {
      if (open) stream.write('\r\x1b[K');
      open = false;
    },
  };
}
