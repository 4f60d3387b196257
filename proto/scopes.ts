/** Scope keys, the actions each may hold, and how one right includes others, as pure functions. */
import { ID_PATTERN } from './ids.ts';
import { isRepository } from './repositories.ts';

/** What a token may do: scope key -> actions. */
export type Scopes = Readonly<Record<string, readonly string[]>>;

/** Most keys in one map, and most characters of a key: both far above what anybody needs. */
export const MAX_SCOPES = 100;
const MAX_KEY_LENGTH = 320;

/** `<service>.<user id>.<resource>.<id>`. The id is the rest, dots and all: a repository's name may hold some. */
const SEGMENTS = 4;

const GENERAL = ['create', 'read', 'update', 'delete'] as const;
const IMAGES = ['push', 'pull', 'delete'] as const;

/** What a service's user root and each of its resources may hold, and how an id of the resource looks. */
const SERVICES: Readonly<
  Record<
    string,
    {
      readonly root: readonly string[];
      readonly resources: Readonly<
        Record<string, { readonly actions: readonly string[]; readonly id: { test(id: string): boolean } }>
      >;
    }
  >
> = {
  compute: {
    root: [...GENERAL, 'start', 'stop'],
    resources: {
      containers: { actions: [...GENERAL, 'start', 'stop'], id: ID_PATTERN },
      keys: { actions: GENERAL, id: /^[1-9][0-9]{0,9}$/ },
    },
  },
  storage: {
    root: [...GENERAL, 'push', 'pull'],
    resources: { registry: { actions: IMAGES, id: { test: isRepository } } },
  },
  networking: {
    root: GENERAL,
    resources: {
      domains: { actions: ['create', 'read', 'delete'], id: ID_PATTERN },
      'domain-mappings': { actions: ['create', 'read', 'delete'], id: ID_PATTERN },
    },
  },
};

/**
 * Whether `scopes` grants `action` on `key`. A grant at the key itself or at any broader level that still names the
 * user (`compute.<uid>.containers`, `compute.<uid>`) counts; a bare service root grants nothing (rule 3). Segments are
 * compared whole, so `compute.u1` never covers `compute.u10`.
 */
export function grants(scopes: Scopes, key: string, action: string): boolean {
  const segments = segmentsOf(key);
  for (let length = segments.length; length >= 2; length--) {
    const level = segments.slice(0, length).join('.');
    if (Object.hasOwn(scopes, level) && scopes[level]?.includes(action)) return true;
  }
  return false;
}

/**
 * What is wrong with a map of scopes that user `uid` wants to give to a token, as a sentence; undefined when nothing
 * is. Keys name the caller's own id, a known service and resource; actions exist for it; a bare root is refused.
 */
export function scopesProblem(scopes: Scopes, uid: string): string | undefined {
  const keys = Object.keys(scopes);
  if (keys.length > MAX_SCOPES) return `must be at most ${MAX_SCOPES} scopes`;
  for (const key of keys) {
    const shown = JSON.stringify(key.slice(0, 80));
    const allowed = actionsOf(key, uid);
    if (typeof allowed === 'string') return `${shown} ${allowed}`;
    const unknown = scopes[key]?.find((action) => !allowed.includes(action));
    if (unknown !== undefined) {
      return `${shown} has no action ${JSON.stringify(unknown.slice(0, 40))}: it has ${allowed.join(', ')}`;
    }
  }
  return undefined;
}

/** The actions that a key may hold, or what is wrong with the key. */
function actionsOf(key: string, uid: string): readonly string[] | string {
  if (key.length > MAX_KEY_LENGTH) return 'is too long';
  const [serviceName = '', user, resourceName, id] = segmentsOf(key);
  const service = Object.hasOwn(SERVICES, serviceName) ? SERVICES[serviceName] : undefined;
  if (service === undefined) return `is no scope: it begins with ${Object.keys(SERVICES).join(', ')}`;
  if (user === undefined) return `grants nothing: write ${serviceName}.${uid}`;
  if (user !== uid) return `must name your own user id: ${serviceName}.${uid}`;
  if (resourceName === undefined) return service.root;
  const resource = Object.hasOwn(service.resources, resourceName) ? service.resources[resourceName] : undefined;
  if (resource === undefined)
    return `names no resource of ${serviceName}: ${Object.keys(service.resources).join(', ')}`;
  return id === undefined || resource.id.test(id) ? resource.actions : `names no id of ${resourceName}`;
}

function segmentsOf(key: string): string[] {
  const parts = key.split('.');
  return parts.length <= SEGMENTS ? parts : [...parts.slice(0, SEGMENTS - 1), parts.slice(SEGMENTS - 1).join('.')];
}
