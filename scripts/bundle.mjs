/**
 * Bundles the program that `bin/troupe` runs, from the sources into dist/program: a start reads some files instead of a
 * thousand. What Node loads by itself stays outside: native parts, and large libraries that few installations use.
 */
import fs, { readdirSync, rmSync, statSync } from 'node:fs';
import http from 'node:http';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = join(root, 'dist/program');

/** What is started by the name of its file. */
const ENTRIES = {
  main: 'cmd/start.ts',
  'hash-thread': 'actors/auth/login/hash-thread.ts',
  'listener-copies-helper': 'cmd/node/listener-copies-helper.ts',
};

/**
 * What programs begin with. All that one of them imports at once is in few files: to read one more file takes longer
 * than to read what is not used. Modules of two go with the first.
 */
const BEGINNINGS = [
  { name: 'commands', modules: ['cmd/main.ts'] },
  { name: 'client', modules: ['cmd/client/own-place.ts', 'cmd/client/failure.ts', 'cmd/client/containers.ts'] },
  { name: 'operator', modules: ['cmd/cli/operator-commands.ts'] },
  {
    name: 'database',
    modules: ['audit', 'containers', 'database', 'nodes', 'users', 'user-limits'].map((name) => `cmd/cli/${name}.ts`),
  },
  { name: 'up', modules: ['cmd/cli/up.ts'] },
  { name: 'server', modules: ['cmd/cli/up-platform.ts', 'cmd/node/run-alone.ts', 'cmd/node/gateway-command.ts'] },
];

const OUTSIDE = [
  /^@node-rs\/argon2/,
  /^uWebSockets\.js/,
  /^cpu-features/,
  /^@kubernetes\/client-node/,
  /^@opentelemetry\/(?!api$)/,
];

/** A platform that runs loads some files late, so those of earlier builds stay as long. */
const KEEP_MS = 7 * 24 * 3600_000;

const begunAt = Date.now();
const closures = new Map();
const build = await rolldown({
  cwd: root,
  platform: 'node',
  tsconfig: false,
  preserveEntrySignatures: 'allow-extension',
  input: Object.fromEntries(Object.entries(ENTRIES).map(([name, path]) => [name, join(root, path)])),
  external: OUTSIDE,
  // What few commands load late, the server loads at once.
  checks: { ineffectiveDynamicImport: false },
  transform: { define: { __dirname: 'import.meta.dirname', __filename: 'import.meta.filename' } },
  plugins: [{ name: 'closures', buildEnd: findClosures }, plainBuiltins(), nativeParts()],
});
const { output } = await build.write({
  dir: folder,
  format: 'esm',
  sourcemap: true,
  chunkFileNames: '[name]-[hash].js',
  codeSplitting: {
    includeDependenciesRecursively: false,
    groups: BEGINNINGS.map(({ name }, at) => ({
      name,
      priority: BEGINNINGS.length - at,
      test: (id) => closures.get(name).has(id),
    })),
  },
});
await build.close();
removeOld(new Set(output.flatMap(({ fileName }) => [fileName, `${fileName}.map`])));

/** All that a beginning imports at once, however far. */
function findClosures() {
  for (const { name, modules } of BEGINNINGS) {
    const found = new Set();
    const visit = (id) => {
      if (found.has(id)) return;
      found.add(id);
      for (const next of this.getModuleInfo(id)?.importedIds ?? []) visit(next);
    };
    for (const module of modules) visit(join(root, module));
    // It waits while it loads the others: none of them may wait for it.
    found.delete(join(root, 'cmd/main.ts'));
    closures.set(name, found);
  }
}

/**
 * An `import` of these parts of Node reads all of their properties, some of which load more: the one of node:http, for
 * `fetch`, takes 30 ms.
 */
function plainBuiltins() {
  const parts = { 'node:fs': fs, 'node:http': http };
  const isPlain = (part, name) => Object.getOwnPropertyDescriptor(part, name)?.get === undefined;
  return {
    name: 'plain-builtins',
    resolveId: (id, importer, { kind }) =>
      id in parts && kind === 'import-statement' && importer !== join(root, ENTRIES.main) ? `\0${id}` : undefined,
    load(id) {
      const part = id.startsWith('\0') ? parts[id.slice(1)] : undefined;
      if (part === undefined) return undefined;
      const names = Object.keys(part).filter((name) => isPlain(part, name));
      const lines = names.map((name) => `export const ${name} = part.${name};`);
      // Works in each Node.js, so that one that is too old comes to the sentence that says so.
      const required = `createRequire(import.meta.url)('${id.slice(1)}')`;
      const head = [
        "import { createRequire } from 'node:module';",
        `const part = ${required};`,
        'export default part;',
      ];
      return [...head, ...lines].join('\n');
    },
  };
}

/** Compiled parts of packages are found where npm put them. */
function nativeParts() {
  return {
    name: 'native-parts',
    resolveId(name, importer) {
      const [, inPackage] = /.*\/node_modules\/(.*)/.exec(importer ?? '') ?? [];
      if (!name.endsWith('.node') || inPackage === undefined) return undefined;
      return { id: join(dirname(inPackage), name), external: true };
    },
  };
}

function removeOld(current) {
  for (const file of readdirSync(folder)) {
    const path = join(folder, file);
    if (!current.has(file) && statSync(path).mtimeMs < begunAt - KEEP_MS) rmSync(path);
  }
}
