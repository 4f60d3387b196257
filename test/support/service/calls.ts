/** Calls of a service as transports make them, without a transport. */
import assert from 'node:assert/strict';
import type { AnyEndpoint, Caller, CallOf, Endpoint, ReplyOf, Service } from '../../../proto/endpoint.ts';
import { type ErrorCode, Refusal } from '../../../proto/errors.ts';
import { newId } from '../../../proto/ids.ts';
import { check } from '../../../transports/api/read.ts';

/** Input of a call as it comes from outside, before any schema. */
export interface Input {
  readonly params?: Record<string, string>;
  readonly query?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: unknown;
  readonly address?: string;
  readonly basic?: { readonly username: string; readonly password: string } | undefined;
}

/** Calls an endpoint: input through its schemas, and the reply through its own, which it must fit without a field too many. */
export async function call<E extends Endpoint>(
  service: Service,
  endpoint: E,
  caller: Caller | undefined,
  input: Input = {},
): Promise<ReplyOf<E>> {
  const reply = await service.call(endpoint, callFrom(endpoint, caller, input));
  if (endpoint.reply !== undefined) assert.deepEqual(endpoint.reply.parse(reply), reply);
  return asReply(endpoint, reply);
}

/** The one cast: the reply was put through exactly this endpoint's schema. */
function asReply<E extends Endpoint>(_endpoint: E, reply: unknown): ReplyOf<E> {
  return reply as ReplyOf<E>;
}

/** Input read as transports/api reads it. Throws Refusal. */
export function callFrom(endpoint: AnyEndpoint, caller: Caller | undefined, input: Input = {}): CallOf<AnyEndpoint> {
  const { params = {}, query = {}, body, address = '192.0.2.1', basic } = input;
  return {
    caller,
    params: endpoint.params === undefined ? params : check(endpoint.params, params, 'path'),
    query: endpoint.query === undefined ? undefined : check(endpoint.query, query, 'query'),
    body: endpoint.body === undefined ? undefined : check(endpoint.body, body, 'body'),
    basic,
    address,
    requestId: 'test',
  };
}

/** Asserts that `work` is refused with `code`, and returns the refusal. */
export async function refused(code: ErrorCode, work: Promise<unknown>): Promise<Refusal> {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof Refusal, String(error));
    assert.equal(error.code, code, error.message);
    return error;
  }
  assert.fail(`it was not refused, expected ${code}`);
}

/** Somebody who is logged in; the token lives an hour. */
export function someone(username = 'ann', expiresInSeconds = 3600): Caller {
  return {
    kind: 'session',
    userId: newId(),
    username,
    isAdmin: false,
    tokenId: newId(),
    expiresAt: Math.floor(Date.now() / 1000) + expiresInSeconds,
  };
}
