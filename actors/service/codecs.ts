/** What crosses between nodes: calls of entities with their outcomes, and what an entity tells a connection. */
import { z } from 'zod';
import type { AnyEndpoint, Call } from '../../proto/endpoint.ts';
import { ERRORS, type ErrorCode, Refusal } from '../../proto/errors.ts';
import type { AnyRef } from '../../supervision/index.ts';
import {
  type CauseCodec,
  type Codec,
  field,
  type RefsIn,
  type RefsOut,
  toWire,
  type Wire,
} from '../../supervision/placement/index.ts';
import type { ConnectionMessage } from './connection.ts';
import type { CallMessage, Outcome } from './dispatch.ts';

const callerSchema = z
  .object({
    kind: z.enum(['session', 'api_token', 'challenge']),
    userId: z.string(),
    username: z.string(),
    isAdmin: z.boolean(),
    tokenId: z.string(),
    expiresAt: z.number(),
    session: z.object({ issuedAt: z.number(), epoch: z.number() }).readonly().exactOptional(),
    via: z.enum(['ssh_key', 'device']).exactOptional(),
    by: z.object({ userId: z.string(), username: z.string() }).readonly().exactOptional(),
    scopes: z.record(z.string(), z.array(z.string())).exactOptional(),
    serviceAccount: z.object({ id: z.string(), name: z.string() }).nullable().exactOptional(),
  })
  .readonly();

const callSchema = z.object({
  endpoint: z.string(),
  caller: callerSchema.optional(),
  params: z.record(z.string(), z.unknown()).optional(),
  query: z.record(z.string(), z.unknown()).optional(),
  body: z.unknown().optional(),
  basic: z.object({ username: z.string(), password: z.string() }).optional(),
  place: z.object({ id: z.number(), claim: z.string(), key: z.string() }).optional(),
  address: z.string(),
  requestId: z.string(),
  replyTo: z.unknown().optional(),
});

const codeSchema = z.custom<ErrorCode>((value) => typeof value === 'string' && Object.hasOwn(ERRORS, value));
const detailSchema = z.object({
  message: z.string(),
  fields: z.array(z.object({ path: z.string(), message: z.string() })).exactOptional(),
  retryAfter: z.number().exactOptional(),
  proof: z.object({ name: z.string(), value: z.string() }).exactOptional(),
});
const refusalSchema = detailSchema.extend({ code: codeSchema });
const causeSchema = detailSchema.omit({ message: true }).extend({ refusal: codeSchema, m: z.string() });
const outcomeSchema = z.object({ refused: refusalSchema.optional(), ok: z.unknown().optional() });

/** What crosses of a refusal besides its code and its sentence. */
function restOf({ fields, retryAfter, proof }: Refusal) {
  return { fields: fields?.map((field) => ({ ...field })), retryAfter, proof: proof && { ...proof } };
}

/** The codec of outcomes. What caused a refusal stays where it happened. */
export const outcomeCodec: Codec<Outcome> = {
  encode(outcome) {
    if (!('refused' in outcome)) return { ok: outcome.ok === undefined ? undefined : toWire(outcome.ok) };
    const { code, message } = outcome.refused;
    return { refused: { code, message, ...restOf(outcome.refused) } };
  },
  decode(wire) {
    const { refused, ok } = outcomeSchema.parse(wire);
    if (refused === undefined) return { ok };
    const { code, ...detail } = refused;
    return { refused: new Refusal(code, detail) };
  },
};

/** A refusal that an entity threw is one on the caller's node, too. */
export const refusalCauses: CauseCodec = {
  encode(cause) {
    if (!(cause instanceof Refusal)) return undefined;
    const { code, message } = cause;
    return { refusal: code, m: message, ...restOf(cause) };
  },
  decode(wire) {
    const { success, data } = causeSchema.safeParse(wire);
    if (!success) return undefined;
    const { refusal, m: message, ...detail } = data;
    return new Refusal(refusal, { message, ...detail });
  },
};

/**
 * The codec of calls of these endpoints. What arrives goes through the endpoint's schemas once more: a node of the
 * version before may have sent it, which knew neither new fields nor their defaults.
 */
export function callCodec(endpoints: readonly AnyEndpoint[]): Codec<CallMessage> {
  const known = new Map(endpoints.map((endpoint) => [endpoint.name, endpoint]));
  return {
    encode({ endpoint, call, replyTo }: CallMessage, refs: RefsOut): Wire {
      const { caller, params, query, body, basic, place, address, requestId } = call;
      return {
        type: 'call',
        endpoint: endpoint.name,
        address,
        requestId,
        caller: part(caller),
        params: part(params),
        query: part(query),
        body: part(body),
        basic: part(basic),
        place: part(place),
        replyTo: refs.out(replyTo, outcomeCodec),
      };
    },
    decode(wire: unknown, refs: RefsIn): CallMessage {
      const given = callSchema.parse(wire);
      const endpoint = known.get(given.endpoint);
      if (endpoint === undefined) throw new TypeError(`a call of ${given.endpoint}, which is not known here`);
      const { caller, basic, place, address, requestId } = given;
      const call: Call = {
        caller,
        address,
        requestId,
        ...(basic === undefined ? {} : { basic }),
        ...(place === undefined ? {} : { place }),
        params: endpoint.params === undefined ? given.params : endpoint.params.parse(written(given.params)),
        query: endpoint.query === undefined ? given.query : endpoint.query.parse(written(given.query)),
        body: endpoint.body === undefined ? undefined : endpoint.body.parse(given.body),
      };
      return { type: 'call', endpoint, call, replyTo: refs.in(given.replyTo, outcomeCodec) };
    },
  };
}

function part(value: unknown): Wire | undefined {
  return value === undefined ? undefined : toWire(value);
}

/** Path and query as they were written in the URL, which is what their schemas read. */
function written(values: Readonly<Record<string, unknown>> = {}): Record<string, string | string[]> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, Array.isArray(value) ? value.map(String) : String(value)]),
  );
}

const said = z.discriminatedUnion('type', [
  z.object({ type: z.literal('close'), code: z.int(), reason: z.string() }),
  z.object({ type: z.literal('send'), text: z.string() }),
]);

/** For an actor that is only watched from elsewhere: nothing can be sent to it. */
export const watchedOnly: Codec<never> = {
  encode: () => {
    throw new TypeError('this actor takes no messages from other nodes');
  },
  decode: () => {
    throw new TypeError('this actor takes no messages from other nodes');
  },
};

/** The codec of what crosses: that the connection is known, what it is to send, and that it is to close. */
export const connectionCodec: Codec<ConnectionMessage> = {
  encode(message, refs) {
    switch (message.type) {
      case 'close':
        return { type: 'close', code: message.code, reason: message.reason };
      case 'send':
        return { type: 'send', text: message.text };
      case 'attached':
        return { type: 'attached', by: refs.out<never>(message.by, watchedOnly) };
      default:
        throw new TypeError(`a connection tells itself ${message.type}, nobody else does`);
    }
  },
  decode(wire, refs): ConnectionMessage {
    if (field(wire, 'type') !== 'attached') return said.parse(wire);
    const by: AnyRef = refs.in<never>(field(wire, 'by'), watchedOnly);
    return { type: 'attached', by };
  },
};
