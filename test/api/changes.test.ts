/** How often one user may change something. */

import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { createToken, listTokens } from '../../proto/auth/api-tokens.ts';
import { login, updateProfile } from '../../proto/auth/endpoints.ts';
import { Buckets } from '../../proto/buckets.ts';
import type { AnyEndpoint, Caller, Service } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import { markRead } from '../../proto/notify/endpoints.ts';
import { refusals } from '../../proto/openapi.ts';
import { BodyError, type HttpRequest } from '../../proto/ports/http.ts';
import { api } from '../../transports/api/api.ts';
import { changesPerMinute } from '../../transports/api/authentication.ts';
import { OpenStreams } from '../../transports/api/open-streams.ts';
import { silentLog } from '../support/log.ts';

function stillClock() {
  let now = 1_000_000;
  const advance = (ms: number) => {
    now += ms;
  };
  return { now: () => now, advance };
}

const callerOf = (userId: string, kind: Caller['kind'] = 'session'): Caller => ({
  ...{ kind, userId, username: userId, isAdmin: false, tokenId: `of-${userId}-${kind}`, expiresAt: 0 },
});

test('a user changes so many things a minute, with whatever token; others and reading are untouched', () => {
  const clock = stillClock();
  const changes = changesPerMinute(60, clock);
  const refusal = (endpoint: AnyEndpoint, caller: Caller) => {
    try {
      changes.count(endpoint, caller);
      return undefined;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return error;
    }
  };
  for (let i = 0; i < 30; i++) assert.equal(refusal(updateProfile, callerOf('ann')), undefined);
  for (let i = 0; i < 30; i++) assert.equal(refusal(createToken, callerOf('ann', 'api_token')), undefined);
  const refused = refusal(updateProfile, callerOf('ann'));
  assert.equal(refused?.code, 'too_many_changes');
  assert.equal(refused?.retryAfter, 1);
  assert.match(refused?.message ?? '', /60 things a minute: wait 1 s/);
  for (const endpoint of [listTokens, login, markRead]) assert.equal(refusal(endpoint, callerOf('ann')), undefined);
  assert.equal(refusal(updateProfile, callerOf('bob')), undefined);
  clock.advance(1000);
  assert.equal(refusal(updateProfile, callerOf('ann')), undefined);
  assert.equal(refusal(updateProfile, callerOf('ann'))?.code, 'too_many_changes');
});

test('documents say so of every change, and of nothing else', () => {
  assert.ok(refusals(updateProfile).includes('too_many_changes'));
  for (const endpoint of [listTokens, login, markRead]) assert.ok(!refusals(endpoint).includes('too_many_changes'));
});

test('what is remembered is bounded, and a clock that goes back gives nothing away', () => {
  const clock = stillClock();
  const buckets = new Buckets({ burst: 1, everyMs: 1000 }, clock);
  for (let i = 0; i < 25_000; i++) assert.equal(buckets.take(`u${i}`), 0);
  assert.equal(buckets.size, 10_000);
  assert.equal(buckets.take('u24999'), 1000);
  clock.advance(-60_000);
  assert.equal(buckets.take('u24999'), 1000);
  clock.advance(1000);
  assert.equal(buckets.take('u24999'), 0);
});

test('the answer is 429 with Retry-After, a code and a sentence, before the body is read', async () => {
  const clock = stillClock();
  const directory = {
    grant: async () => undefined,
    knowsUser: async () => true,
    onNews: () => ({ close: async () => {} }),
  };
  const service: Service = {
    name: 'auth',
    endpoints: [updateProfile],
    call: async () => ({ username: 'ann', display_name: 'Ann', user_id: 'ann' }),
    connect: () => Promise.reject(new Error('none')),
    health: async () => ({ ok: true, problems: [] }),
  };
  const { onRequest } = api({
    ...{ service, streams: new OpenStreams(directory, silentLog), pages: new Map(), log: silentLog },
    authenticate: () => callerOf('ann'),
    changes: changesPerMinute(2, clock),
  });
  const put = (body: () => Promise<Uint8Array>) => {
    const request: HttpRequest = {
      ...{ method: 'PUT', path: updateProfile.path, query: '', remoteAddress: '127.0.0.1', body },
      stream: () => Readable.from([]),
      header: (name) => (name === 'authorization' ? 'Bearer ann' : undefined),
      signal: new AbortController().signal,
    };
    return onRequest(request);
  };
  const good = async () => Buffer.from('{"display_name":"Ann"}');
  for (let i = 0; i < 2; i++) assert.equal((await put(good)).status, 200);
  const reply = await put(() => Promise.reject(new BodyError('too_large')));
  assert.equal(reply.status, 429);
  assert.ok('body' in reply);
  assert.deepEqual(JSON.parse(String(reply.body)), {
    error: 'You may change 2 things a minute: wait 30 s, then go on more slowly.',
    code: 'too_many_changes',
  });
  assert.equal(new Map(reply.headers).get('retry-after'), '30');
});
