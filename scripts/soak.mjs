/** `npm run soak -- NAME` runs the long test test/soak/NAME.ts. Without a name it lists them. */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = join(root, 'test/soak');
const [name, ...args] = process.argv.slice(2);

if (name === undefined || !/^[\w-]+$/.test(name) || !existsSync(join(folder, `${name}.ts`))) {
  const names = readdirSync(folder).filter((file) => file.endsWith('.ts'));
  process.stdout.write(`${names.map((file) => file.slice(0, -3)).join('\n')}\n`);
  if (name !== undefined) process.exitCode = 1;
} else {
  const script = join(folder, `${name}.ts`);
  const { status, error } = spawnSync(process.execPath, ['--import', 'tsx', script, ...args], {
    cwd: root,
    stdio: 'inherit',
  });
  if (error) throw error;
  process.exitCode = status ?? 1;
}
