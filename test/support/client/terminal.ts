/** Client commands as people run them: at a terminal, on a desktop whose browser only notes what it was to open. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { troupeCommand } from '../cluster/platform.ts';
import { until } from '../until.ts';

interface AtTerminal {
  /** What stands on the terminal by now. */
  readonly screen: () => string;
  readonly type: (text: string) => void;
  /** Resolves with the address that was opened in the browser. */
  readonly opened: () => Promise<string>;
  /** Resolves with the exit code. */
  readonly ended: Promise<number | null>;
  /** Ends it, if it has not ended by itself. */
  readonly stop: () => void;
}

const NOTED = 'opened';

/** Runs `troupe ...` at a terminal (`script` of util-linux makes one). `folder`: where its desktop is made. */
export async function atTerminal(
  args: readonly string[],
  { folder, env }: { readonly folder: string; readonly env: Readonly<Record<string, string>> },
): Promise<AtTerminal> {
  const desktop = await mkdtemp(join(folder, 'desktop-'));
  const noted = join(desktop, NOTED);
  const browser = `#!/bin/sh\nprintf '%s\\n' "$1" >"${noted}.new" && mv "${noted}.new" "${noted}"\n`;
  await writeFile(join(desktop, 'xdg-open'), browser, { mode: 0o755 });
  const command = troupeCommand(args).map((part) => `'${part.replaceAll("'", `'\\''`)}'`);
  const child = spawn('script', ['-qec', `exec ${command.join(' ')}`, '/dev/null'], {
    env: { ...process.env, ...env, DISPLAY: ':none', PATH: `${desktop}${delimiter}${process.env.PATH ?? ''}` },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let screen = '';
  child.stdout.on('data', (chunk: Buffer) => {
    screen += chunk;
  });
  const ended = once(child, 'close').then(([code]) => (typeof code === 'number' ? code : null));
  return {
    screen: () => screen,
    type: (text) => void child.stdin.write(text),
    opened: async () => {
      let address = '';
      const isThere = async () => {
        address = await readFile(noted, 'utf8').catch(() => '');
        return address !== '' || child.exitCode !== null;
      };
      await until(isThere, { what: 'the browser is opened', timeoutMs: 60_000 });
      if (address === '') throw new Error(`no browser was opened: ${screen}`);
      return address.trim();
    },
    ended,
    stop: () => void child.kill(),
  };
}
