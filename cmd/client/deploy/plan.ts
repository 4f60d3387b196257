/** What a folder is, and how it is deployed: from its files, its troupe.toml, and what was typed. Pure. */
import { ClientFailure } from '../failure.ts';
import type { FolderSettings } from './settings.ts';

/** How it is known that a release is well. */
interface ReleaseCheck {
  /** `http`: a status from 200 to 399 at `path`. `tcp`: a connection. `none`: nothing is looked at. */
  readonly kind: 'http' | 'tcp' | 'none';
  readonly path: string;
}

/** All that a deployment needs to know. */
export interface DeployPlan {
  /** The container's. */
  readonly name: string;
  /** What a new container is made from; undefined: the platform's default. */
  readonly image: string | undefined;
  /** Shell scripts, run in the folder of the release. Without `build` nothing is built. */
  readonly build: string | undefined;
  /** Runs once before the switch; without it, nothing does. */
  readonly release: string | undefined;
  /** Undefined: nobody knows yet. */
  readonly start: string | undefined;
  readonly port: number | undefined;
  readonly check: ReleaseCheck;
  /** Seconds until it must be well. */
  readonly grace: number;
  /** What was found, as a person is told: "package.json". */
  readonly found: string;
}

/** The files at the top of a folder that say what it is. */
export const TELLING_FILES = [
  'package.json',
  'package-lock.json',
  'Procfile',
  'requirements.txt',
  'pyproject.toml',
  'main.py',
  'app.py',
  'server.js',
  'index.js',
  'index.html',
  'Dockerfile',
] as const;
export type TellingFile = (typeof TELLING_FILES)[number];

/** Their texts; those that are not there are undefined. */
export type TellingTexts = Readonly<Partial<Record<TellingFile, string>>>;

/** Seconds that a release has until it must be well. */
const GRACE_SECONDS = 30;

/** Runs the server of files that the platform's images have. Images of earlier versions have none. */
const SERVE_FILES = `command -v troupe-serve >/dev/null || {
  echo "The image of this container has no server of files: deploy to a new container, or name one with --start." >&2
  exit 1
}
exec troupe-serve`;

interface FolderKind {
  readonly image: string | undefined;
  readonly build?: string | undefined;
  readonly start?: string | undefined;
  readonly found: string;
}

/** `folder`: its name. What was typed wins over troupe.toml, which wins over what the files say. */
export function planOf(
  folder: string,
  texts: TellingTexts,
  settings: FolderSettings,
  typed: FolderSettings,
): DeployPlan {
  const said = { ...settings, ...typed };
  const kind = kindOf(texts);
  const name = said.name ?? containerName(folder);
  if (name === '') throw new ClientFailure('usage', 'What is the app called? `troupe deploy --name NAME`.');
  return {
    name,
    image: said.image ?? kind.image,
    build: said.build === '' ? undefined : (said.build ?? kind.build),
    release: said.release === '' ? undefined : (said.release ?? processOf(texts.Procfile, 'release')),
    start: said.start ?? processOf(texts.Procfile, 'web') ?? kind.start,
    port: said.port,
    check: checkOf(said.health ?? '/'),
    grace: said.grace ?? GRACE_SECONDS,
    found: kind.found,
  };
}

/** A name that a container may have; '' if nothing is left. */
function containerName(folder: string): string {
  return folder
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, '-')
    .replace(/^[^a-z0-9]+|-+$/g, '')
    .slice(0, 40);
}

function checkOf(health: string): ReleaseCheck {
  if (health === 'tcp' || health === 'none') return { kind: health, path: '/' };
  if (!/^\/[!-~]*$/.test(health))
    throw new ClientFailure('usage', `The health check must be a path such as /healthz, tcp or none, not ${health}.`);
  return { kind: 'http', path: health };
}

function kindOf(texts: TellingTexts): FolderKind {
  if (texts['package.json'] !== undefined) return nodeKind(texts, texts['package.json']);
  if (texts['requirements.txt'] !== undefined || texts['pyproject.toml'] !== undefined) return pythonKind(texts);
  for (const file of ['main.py', 'app.py'] as const)
    if (texts[file] !== undefined) return { image: 'python', start: `python3 ${file}`, found: file };
  for (const file of ['server.js', 'index.js'] as const)
    if (texts[file] !== undefined) return { image: 'node', start: `node ${file}`, found: file };
  if (texts['index.html'] !== undefined) return { image: undefined, start: SERVE_FILES, found: 'index.html' };
  const found = texts.Procfile === undefined ? 'nothing that says what it is' : 'Procfile';
  return { image: undefined, found };
}

function nodeKind(texts: TellingTexts, text: string): FolderKind {
  const { scripts, main } = manifestOf(text);
  const file = main ?? (texts['server.js'] !== undefined ? 'server.js' : undefined);
  const fallback = file ?? (texts['index.js'] !== undefined ? 'index.js' : undefined);
  const start = scripts.start ? 'npm start' : fallback === undefined ? undefined : `node ${quoted(fallback)}`;
  const install = texts['package-lock.json'] === undefined ? 'npm install --no-audit --no-fund' : 'npm ci';
  return {
    image: 'node',
    build: scripts.build ? `${install}\nnpm run build` : install,
    start,
    found: 'package.json',
  };
}

function pythonKind(texts: TellingTexts): FolderKind {
  const isProject = texts['requirements.txt'] === undefined;
  const file = (['main.py', 'app.py'] as const).find((name) => texts[name] !== undefined);
  return {
    image: 'python',
    build: `python3 -m venv .venv\n.venv/bin/pip install ${isProject ? '.' : '-r requirements.txt'}`,
    start: file === undefined ? undefined : `python ${file}`,
    found: isProject ? 'pyproject.toml' : 'requirements.txt',
  };
}

interface Manifest {
  readonly scripts: { readonly start: boolean; readonly build: boolean };
  readonly main: string | undefined;
}

function manifestOf(text: string): Manifest {
  let manifest: unknown;
  try {
    manifest = JSON.parse(text);
  } catch (cause) {
    throw new ClientFailure('usage', `package.json is no JSON: ${String(cause)}`, { cause });
  }
  const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;
  const all = isObject(manifest) ? manifest : {};
  const scripts = isObject(all.scripts) ? all.scripts : {};
  const has = (name: string) => typeof scripts[name] === 'string' && scripts[name] !== '';
  return {
    scripts: { start: has('start'), build: has('build') },
    main: typeof all.main === 'string' && all.main !== '' ? all.main : undefined,
  };
}

/** A process of a Procfile. */
function processOf(text: string | undefined, name: 'web' | 'release'): string | undefined {
  const line = text?.split(/\r?\n/).find((each) => each.startsWith(`${name}:`));
  const command = line?.slice(name.length + 1).trim();
  return command === '' ? undefined : command;
}

const quoted = (word: string): string => (/^[\w./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
