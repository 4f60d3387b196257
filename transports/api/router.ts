/**
 * Finds the endpoint of a method and a path. Built once from the table; a lookup allocates nothing for plain paths. A
 * path may have a WebSocket and an endpoint that answers GET.
 */
import type { AnyEndpoint } from '../../proto/endpoint.ts';

/** What a path leads to. `allow` names the methods the path answers, when the one asked for is not among them. */
type Match =
  | { readonly endpoint: AnyEndpoint; readonly params: Readonly<Record<string, string>> }
  | { readonly allow: readonly string[] }
  | undefined;

/** The endpoints of a path by method; a WebSocket under UPGRADE. */
type Methods = Map<string, AnyEndpoint>;

interface Pattern {
  readonly parts: readonly string[];
  readonly methods: Methods;
}

/** In place of a method: the path's WebSocket. */
export const UPGRADE = 'upgrade';

const NO_PARAMS: Readonly<Record<string, string>> = Object.freeze({});

/**
 * Makes the lookup, which takes a method or UPGRADE. GET finds a WebSocket where nothing else answers it. Throws when
 * two endpoints stand at one method and path.
 */
export function router(endpoints: readonly AnyEndpoint[]): (method: string, path: string) => Match {
  const exact = new Map<string, Methods>();
  const patterns = new Map<string, Pattern>();
  for (const endpoint of endpoints) {
    const methods = methodsAt(endpoint.path);
    const method = endpoint.socket ? UPGRADE : endpoint.method;
    if (methods.has(method)) throw new Error(`two endpoints answer ${endpoint.method} ${endpoint.path}`);
    methods.set(method, endpoint);
  }

  function methodsAt(path: string): Methods {
    if (!path.includes('{')) {
      const methods = exact.get(path) ?? new Map<string, AnyEndpoint>();
      exact.set(path, methods);
      return methods;
    }
    const pattern = patterns.get(path) ?? { parts: path.split('/'), methods: new Map<string, AnyEndpoint>() };
    patterns.set(path, pattern);
    return pattern.methods;
  }

  return (method, path) => {
    const wanted = method === 'HEAD' ? 'GET' : method;
    const plain = exact.get(path);
    if (plain !== undefined) return choose(plain, wanted, NO_PARAMS);
    const parts = path.split('/');
    for (const pattern of patterns.values()) {
      const params = fit(pattern.parts, parts);
      if (params !== undefined) return choose(pattern.methods, wanted, params);
    }
    return undefined;
  };
}

function choose(methods: Methods, method: string, params: Readonly<Record<string, string>>): Match {
  const endpoint = methods.get(method) ?? (method === 'GET' ? methods.get(UPGRADE) : undefined);
  if (endpoint !== undefined) return { endpoint, params };
  return { allow: [...new Set([...methods.values()].map((each) => each.method))] };
}

function fit(pattern: readonly string[], parts: readonly string[]): Record<string, string> | undefined {
  if (pattern.length !== parts.length) return undefined;
  const params: Record<string, string> = {};
  for (const [index, expected] of pattern.entries()) {
    const part = parts[index] ?? '';
    if (!expected.startsWith('{')) {
      if (part !== expected) return undefined;
      continue;
    }
    const value = decode(part);
    if (value === undefined || value === '') return undefined;
    params[expected.slice(1, -1)] = value;
  }
  return params;
}

function decode(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}
