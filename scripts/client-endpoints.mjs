/**
 * Writes client/generated/endpoints.ts from the endpoint table in proto/: `node --import tsx scripts/client-endpoints.mjs`.
 * With `--check` it only says whether the file is current (exit code 1: it is not).
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const target = join(root, 'client/generated/endpoints.ts');

const text = write(await endpoints());
if (!process.argv.includes('--check')) {
  writeFileSync(target, text);
} else if (readFileSync(target, 'utf8') !== text) {
  process.stderr.write('client/generated/endpoints.ts is not current: run npm run generate\n');
  process.exitCode = 1;
}

/** All endpoints by name, each with the module that exports it, if one does. */
async function endpoints() {
  const found = new Map();
  const files = readdirSync(join(root, 'proto'), { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.ts'),
  );
  const modules = await Promise.all(
    files.sort().map(async (file) => [file, await import(new URL(`../proto/${file}`, import.meta.url).href)]),
  );
  const isEndpoint = (value) => typeof value === 'object' && value !== null && 'path' in value && 'access' in value;
  // Modules that only pass an endpoint on are passed over.
  const declares = (file, name) =>
    new RegExp(`^export const ${name} = endpoint\\(`, 'm').test(readFileSync(join(root, 'proto', file), 'utf8'));
  for (const [file, exported] of modules) {
    for (const [name, value] of Object.entries(exported)) {
      if (Array.isArray(value)) {
        for (const each of value)
          if (isEndpoint(each) && !found.has(each.name)) found.set(each.name, { endpoint: each });
      } else if (isEndpoint(value) && declares(file, name)) {
        if (name !== value.name) throw new Error(`${file} exports the endpoint ${value.name} as ${name}.`);
        found.set(name, { endpoint: value, file });
      }
    }
  }
  return [...found.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, rest]) => ({ name, ...rest }));
}

function kindOf({ socket, events, method, safe }) {
  if (socket) return 'WS';
  if (events) return 'SSE';
  if (method === 'GET' && safe === false) throw new Error('A GET that changes something cannot be repeated: say how.');
  return method;
}

function write(all) {
  const files = [...new Set(all.map(({ file }) => file).filter((file) => file !== undefined))].sort();
  const alias = (file) => file.replace(/\.ts$/, '').replace(/[/-](\w)/g, (_, letter) => letter.toUpperCase());
  const missing = all.filter(({ endpoint, file }) => file === undefined && !['WS', 'SSE'].includes(kindOf(endpoint)));
  if (missing.length > 0) throw new Error(`No module exports ${missing.map(({ name }) => name).join(', ')}.`);
  return `/** Written by scripts/client-endpoints.mjs from the endpoint table of proto/. Do not edit it. */
${files.map((file) => `import type * as ${alias(file)} from '../../proto/${file}';`).join('\n')}

/** Kind and path of each endpoint: a method, WS for a socket, or SSE for an event stream. */
export const ENDPOINTS = {
${all.map(({ name, endpoint }) => `  ${name}: '${kindOf(endpoint)} ${endpoint.path}',`).join('\n')}
} as const;

/** Names of those that take an Idempotency-Key. */
export const KEYED: ReadonlySet<string> = new Set([
${all
  .filter(({ endpoint }) => endpoint.idempotent !== undefined)
  .map(({ name }) => `  '${name}',`)
  .join('\n')}
]);

/** The definition of each endpoint, for types. */
export interface Definitions {
${all
  .filter(({ file }) => file !== undefined)
  .map(({ name, file }) => `  readonly ${name}: typeof ${alias(file)}.${name};`)
  .join('\n')}
}
`;
}
