/** One OpenAPI document of all services, as they are reached on the platform's domain. */
import type { AnyEndpoint } from './endpoint.ts';
import { type ApiStyle, openapi } from './openapi.ts';

type OpenApiObject = Record<string, unknown>;

/** The endpoints of a service, and how it speaks. */
interface DocumentedService {
  readonly endpoints: readonly AnyEndpoint[];
  readonly style?: ApiStyle | undefined;
}

/**
 * The OpenAPI 3.1 document of `services`. Bodies, replies and messages of sockets are named schemas, after their
 * operation; those that are equal share one. Its only server is the host that the document came from.
 */
export function platformOpenapi(version: string, services: readonly DocumentedService[]): OpenApiObject {
  const paths: Record<string, OpenApiObject> = {};
  const securitySchemes: OpenApiObject = {};
  const schemas = new NamedSchemas();
  let common: OpenApiObject = {};
  for (const { endpoints, style } of services) {
    const { paths: own, components, ...rest } = openapi('Troupe', version, endpoints, [], style);
    common = rest;
    Object.assign(securitySchemes, recordIn(components, 'securitySchemes'));
    schemas.keep('Error', recordIn(components, 'schemas').Error);
    for (const [path, item] of Object.entries(asRecord(own))) {
      for (const operation of Object.values(asRecord(item))) schemas.name(asRecord(operation));
      paths[path] = { ...paths[path], ...asRecord(item) };
    }
  }
  return { ...common, servers: [{ url: '/' }], paths, components: { securitySchemes, schemas: schemas.all } };
}

/** Schemas of operations, moved to where they have names. */
class NamedSchemas {
  readonly all: OpenApiObject = {};
  readonly #names = new Map<string, string>();

  keep(name: string, schema: unknown): void {
    this.all[name] = schema;
  }

  /** Moves those of an operation. */
  name(operation: OpenApiObject): void {
    const base = String(operation.operationId).replace(/^./, (first) => first.toUpperCase());
    this.#move(contentOf(operation.requestBody), `${base}Body`);
    for (const [status, response] of Object.entries(asRecord(operation.responses))) {
      if (status >= '300') continue;
      this.#move(contentOf(response), `${base}Reply`);
      const messages = asRecord(response);
      if (messages['x-messages'] !== undefined)
        messages['x-messages'] = this.#reference(messages['x-messages'], `${base}Messages`);
    }
  }

  #move(media: OpenApiObject | undefined, name: string): void {
    if (media?.schema !== undefined) media.schema = this.#reference(media.schema, name);
  }

  #reference(schema: unknown, name: string): OpenApiObject {
    const text = JSON.stringify(schema);
    const known = this.#names.get(text) ?? name;
    if (known === name) {
      this.#names.set(text, name);
      this.all[name] = schema;
    }
    return { $ref: `#/components/schemas/${known}` };
  }
}

/** The only media type of a body or a response. */
function contentOf(value: unknown): OpenApiObject | undefined {
  const [media] = Object.values(recordIn(value, 'content'));
  return media === undefined ? undefined : asRecord(media);
}

function recordIn(value: unknown, name: string): OpenApiObject {
  return asRecord(asRecord(value)[name]);
}

function asRecord(value: unknown): OpenApiObject {
  return isRecord(value) ? value : {};
}

function isRecord(value: unknown): value is OpenApiObject {
  return typeof value === 'object' && value !== null;
}
