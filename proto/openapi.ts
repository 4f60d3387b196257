/** /openapi.json, made from the endpoint table: what is served is what is documented. */
import { z } from 'zod';
import type { AnyEndpoint } from './endpoint.ts';
import { ERRORS, type ErrorCode } from './errors.ts';

type Json = Record<string, unknown>;

/** A page a service shows besides its endpoints: open to all, without parameters. */
export interface PageDescription {
  readonly path: string;
  readonly summary: string;
  readonly contentType: string;
}

/** The OpenAPI 3.1 document of `endpoints` and `pages`. A WebSocket is a GET that answers 101. */
export function openapi(
  title: string,
  version: string,
  endpoints: readonly AnyEndpoint[],
  pages: readonly PageDescription[] = [],
): Json {
  const paths: Record<string, Json> = {};
  for (const page of pages) {
    paths[page.path] = {
      get: {
        operationId: page.path.replace(/[^a-z]/g, ''),
        summary: page.summary,
        tags: ['operations'],
        security: [],
        responses: { '200': { description: 'Done', content: { [page.contentType]: { schema: {} } } } },
      },
    };
  }
  for (const endpoint of endpoints) {
    const item = paths[endpoint.path] ?? {};
    item[endpoint.method.toLowerCase()] = operation(endpoint);
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

function operation(endpoint: AnyEndpoint): Json {
  const result: Json = {
    operationId: endpoint.name,
    summary: endpoint.summary,
    tags: [endpoint.service],
    security: endpoint.access === 'none' ? (endpoint.basic ? [{}, { basic: [] }] : []) : [{ bearer: [] }],
    parameters: [...parameters(endpoint, 'path'), ...parameters(endpoint, 'query')],
    responses: responses(endpoint),
  };
  if (endpoint.body !== undefined) {
    result.requestBody = { required: true, content: { 'application/json': { schema: schemaOf(endpoint.body) } } };
  }
  return result;
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

function responses(endpoint: AnyEndpoint): Json {
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
      description: codes.map((code) => `${code}: ${ERRORS[code].text}`).join(' '),
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
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
  codes.push(...(endpoint.refuses ?? []), 'internal', 'unavailable');
  return [...new Set(codes)];
}

function schemaOf(schema: z.ZodType): Json {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io: 'input', target: 'draft-2020-12' });
  return rest;
}

function isRecord(value: unknown): value is Json {
  return typeof value === 'object' && value !== null;
}
