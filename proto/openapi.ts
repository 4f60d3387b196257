/** /openapi.json, made from the endpoint table: what is served is what is documented. */
import { z } from 'zod';
import { type AnyEndpoint, isRateLimited } from './endpoint.ts';
import { ERRORS, type ErrorCode } from './errors.ts';
import { KEY_PATTERN } from './kept-answers.ts';

type Json = Record<string, unknown>;

/** A page a service shows besides its endpoints: open to all, without parameters. */
export interface PageDescription {
  readonly path: string;
  readonly summary: string;
  readonly contentType: string;
  /** JSON schemas of its replies by status; without it: 200, of any form. */
  readonly replies?: Readonly<Record<string, { readonly description: string; readonly schema: object }>>;
}

/** How a service speaks where it differs from the others. */
export interface ApiStyle {
  /** Refusals are plain text, unless the client prefers JSON (its header Accept). */
  readonly isPlain?: boolean;
  /** Name of a cookie that may carry the token, too. */
  readonly cookie?: string;
}

/** The OpenAPI 3.1 document of `endpoints` and `pages`. A WebSocket is a GET that answers 101. */
export function openapi(
  title: string,
  version: string,
  endpoints: readonly AnyEndpoint[],
  pages: readonly PageDescription[] = [],
  style: ApiStyle = {},
): Json {
  const paths: Record<string, Json> = {};
  for (const page of pages) {
    paths[page.path] = {
      get: {
        operationId: page.path.replace(/[^a-z]/g, ''),
        summary: page.summary,
        tags: ['operations'],
        security: [],
        responses: Object.fromEntries(
          Object.entries(page.replies ?? { '200': { description: 'Done', schema: {} } }).map(
            ([status, { description, schema }]) => [
              status,
              { description, content: { [page.contentType]: { schema } } },
            ],
          ),
        ),
      },
    };
  }
  for (const endpoint of endpoints) {
    const item = paths[endpoint.path] ?? {};
    // One operation stands for both forms of a path: with an upgrade and without.
    const others = endpoints.filter(({ method, path }) => method === endpoint.method && path === endpoint.path);
    const plain = others.find(({ socket }) => !socket);
    if (endpoint !== plain && plain !== undefined) continue;
    const twin = others.find(({ socket }) => socket && !endpoint.socket);
    const own = operation(endpoint, style);
    item[endpoint.method.toLowerCase()] = twin === undefined ? own : { ...own, ...upgradable(endpoint, twin, style) };
    paths[endpoint.path] = item;
  }
  return {
    openapi: '3.1.0',
    info: { title, version, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    paths,
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
        basic: { type: 'http', scheme: 'basic' },
        query: {
          type: 'apiKey',
          in: 'query',
          name: 'token',
          description: 'Where headers cannot be set: the same token.',
        },
        ...(style.cookie === undefined ? {} : { cookie: { type: 'apiKey', in: 'cookie', name: style.cookie } }),
      },
      schemas: { Error: errorSchema },
    },
  };
}

const errorSchema: Json = {
  type: 'object',
  required: ['error', 'code'],
  properties: {
    error: { type: 'string', description: 'A sentence for people.' },
    code: { type: 'string', enum: Object.keys(ERRORS) },
    fields: {
      type: 'array',
      items: {
        type: 'object',
        required: ['path', 'message'],
        properties: { path: { type: 'string' }, message: { type: 'string' } },
      },
    },
  },
};

/** Ways to say who one is; any of them will do. */
function security(endpoint: AnyEndpoint, style: ApiStyle): Json[] {
  if (endpoint.access === 'none') return endpoint.basic ? [{}, { basic: [] }] : [];
  return [
    { bearer: [] },
    ...(endpoint.socket || endpoint.events ? [{ query: [] }] : []),
    ...(style.cookie === undefined ? [] : [{ cookie: [] }]),
  ];
}

/** Who may call, in a sentence; undefined: anybody, or whoever is logged in. */
function whoMay({ access, scope, path }: AnyEndpoint): string | undefined {
  if (access === 'admin') return 'Only for a login of the administrator.';
  if (access === 'session') return 'Only for a login: API tokens are refused.';
  if (access === 'challenge') return 'With the challenge token of a login that needs a security key.';
  if (access !== 'token' || scope === undefined) return undefined;
  const params = Object.fromEntries([...path.matchAll(/\{([^}]+)\}/g)].map(([, name = '']) => [name, `<${name}>`]));
  return `An API token needs the scope \`${scope.key('<uid>', params)}\`, or a broader one, with \`${scope.action}\`.`;
}

function operation(endpoint: AnyEndpoint, style: ApiStyle): Json {
  const description = whoMay(endpoint);
  const result: Json = {
    operationId: endpoint.name,
    summary: endpoint.summary,
    ...(description === undefined ? {} : { description }),
    tags: [endpoint.service],
    security: security(endpoint, style),
    parameters: [...parameters(endpoint, 'path'), ...parameters(endpoint, 'query'), ...keyParameter(endpoint)],
    responses: responses(endpoint, style),
  };
  if (endpoint.body !== undefined) {
    result.requestBody = { required: true, content: { 'application/json': { schema: schemaOf(endpoint.body) } } };
  }
  return result;
}

/** What an operation says besides when its path has a WebSocket, too. */
function upgradable(endpoint: AnyEndpoint, twin: AnyEndpoint, style: ApiStyle): Json {
  return {
    summary: `${endpoint.summary}. With an upgrade: ${twin.summary}`,
    security: security(twin, style),
    responses: { '101': responses(twin, style)['101'], ...responses(endpoint, style) },
  };
}

function parameters(endpoint: AnyEndpoint, where: 'path' | 'query'): Json[] {
  const shape = where === 'path' ? endpoint.params : endpoint.query;
  if (shape === undefined) return [];
  const { properties, required } = schemaOf(shape);
  const needed = new Set(Array.isArray(required) ? required : []);
  return Object.entries(isRecord(properties) ? properties : {}).map(([name, schema]) => ({
    name,
    in: where,
    required: where === 'path' || needed.has(name),
    schema,
  }));
}

/** The header of endpoints that take a key. */
function keyParameter({ idempotent }: AnyEndpoint): Json[] {
  if (idempotent === undefined) return [];
  return [
    {
      name: 'Idempotency-Key',
      in: 'header',
      required: false,
      description:
        'Of your own choice, another one for each request. A request that is sent again with its key within a day ' +
        'makes nothing twice: it gets the first answer, with `Idempotency-Replayed: true`.',
      schema: { type: 'string', minLength: 1, maxLength: 255, pattern: KEY_PATTERN.source },
    },
  ];
}

/** Of a conflict that a TXT record settles. */
const PROOF_HEADERS: Json = {
  'X-Troupe-Proof-Name': {
    description:
      'The name of a TXT record that proves the hostname for you, if another user claims it without a proof.',
    schema: { type: 'string' },
  },
  'X-Troupe-Proof-Value': { description: 'The value of that record: yours alone.', schema: { type: 'string' } },
};

function responses(endpoint: AnyEndpoint, { isPlain = false }: ApiStyle): Json {
  const result: Json = {};
  if (endpoint.socket) {
    const messages = endpoint.reply === undefined ? {} : { 'x-messages': schemaOf(endpoint.reply) };
    result['101'] = { description: 'Switching to WebSocket', ...messages };
  } else {
    const type = endpoint.events ? 'text/event-stream' : 'application/json';
    const content = endpoint.reply === undefined ? {} : { content: { [type]: { schema: schemaOf(endpoint.reply) } } };
    result[String(endpoint.status ?? 200)] = { description: 'Done', ...content };
  }
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of refusals(endpoint)) {
    const { status } = ERRORS[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  for (const [status, codes] of [...byStatus].sort(([a], [b]) => a - b)) {
    result[String(status)] = {
      ...(endpoint.proves && codes.includes('conflict') ? { headers: PROOF_HEADERS } : {}),
      description: codes.map((code) => `${code}: ${ERRORS[code].text}`).join(' '),
      content: {
        ...(isPlain ? { 'text/plain': { schema: { type: 'string' } } } : {}),
        'application/json': { schema: { $ref: '#/components/schemas/Error' } },
      },
    };
  }
  return result;
}

/** Every code the endpoint can refuse with: its own, and those that follow from access, scope and schemas. */
export function refusals(endpoint: AnyEndpoint): ErrorCode[] {
  const codes: ErrorCode[] = [];
  if (endpoint.body !== undefined) codes.push('invalid_json', 'body_too_large');
  if (endpoint.body !== undefined || endpoint.query !== undefined) codes.push('invalid_request');
  if (endpoint.access !== 'none') codes.push('unauthorized');
  if (endpoint.access === 'admin' || endpoint.access === 'session') codes.push('forbidden');
  if (endpoint.access === 'token' && endpoint.scope !== undefined) codes.push('missing_scope');
  if (endpoint.params !== undefined) codes.push('not_found');
  if (endpoint.socket) codes.push('upgrade_required');
  if (isRateLimited(endpoint)) codes.push('too_many_changes');
  if (endpoint.idempotent !== undefined)
    codes.push('invalid_request', 'conflict', 'idempotency_key_in_use', 'idempotency_key_reused');
  codes.push(...(endpoint.refuses ?? []), 'internal', 'unavailable');
  return [...new Set(codes)];
}

function schemaOf(schema: z.ZodType): Json {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, {
    io: 'input',
    target: 'draft-2020-12',
    // What says nothing to a reader: the bounds of every integer, and how a format is checked.
    override: ({ jsonSchema }) => {
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
      if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
    },
  });
  return rest;
}

function isRecord(value: unknown): value is Json {
  return typeof value === 'object' && value !== null;
}
