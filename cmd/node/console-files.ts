/** Reads the console that `npm run build` made, for the gateway to serve. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join, sep } from 'node:path';
import type { ConsoleFile, ConsoleFiles } from '../../proto/gateway/console-files.ts';

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
  '.webmanifest': 'application/manifest+json',
};
/** Files whose names have a hash. */
const ASSETS = '/assets/';

/** All files in `folder`, whole in memory: some hundred kilobytes. Undefined when nothing was built there. */
export function readConsole(folder: string): ConsoleFiles | undefined {
  if (!existsSync(join(folder, 'index.html'))) return undefined;
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const files = new Map<string, ConsoleFile>();
  for (const name of names) {
    const type = TYPES[extname(name)];
    if (type !== undefined) files.set(`/${name.split(sep).join('/')}`, fileAt(join(folder, name), name, type));
  }
  return files;
}

function fileAt(path: string, name: string, type: string): ConsoleFile {
  const bytes = readFileSync(path);
  const tag = createHash('sha256').update(bytes).digest('base64url').slice(0, 22);
  const isForever = `/${name.split(sep).join('/')}`.startsWith(ASSETS);
  return { type, bytes, tag, isForever, gzip: ifThere(`${path}.gz`), brotli: ifThere(`${path}.br`) };
}

function ifThere(path: string): Buffer | undefined {
  return existsSync(path) ? readFileSync(path) : undefined;
}
