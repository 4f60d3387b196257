/** Refusals of the networking API: plain text, unless the client prefers JSON. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TroupeClient, TroupeError } from '../../client/index.ts';
import { nodeTransport } from '../../client/node/index.ts';
import { prefersJson } from '../../transports/api/endings.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openNetwork } from '../support/service/network.ts';

failOnLeaks();

test('JSON is preferred where it is liked better, by the most specific range', () => {
  for (const accept of [
    'application/json',
    'Application/JSON; charset=utf-8',
    'application/json, */*;q=0.1',
    'text/plain;q=0.5, application/json',
    'application/*',
    'text/*;q=0.9,application/*',
    'application/json;q=0.1',
    '*/*, text/plain;q=0',
  ])
    assert.equal(prefersJson(accept), true, accept);
  for (const accept of [
    undefined,
    '',
    '*/*',
    'application/json, text/plain, */*',
    'text/html,application/xhtml+xml,*/*;q=0.8',
    'text/plain',
    'application/json;q=0',
    'application/json;q=0.4, text/plain;q=0.5',
    'application/json;q=0.5, */*',
    'application/problem+json',
    `application/json,${' '.repeat(2000)}`,
  ])
    assert.equal(prefersJson(accept), false, accept);
});

test('refusals of the networking API are plain text as specified, and JSON for a client that prefers it', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  const accept = { accept: 'application/json' };
  const cases = [
    { method: 'GET', path: '/api/domains', token: '', plain: 'unauthorized', code: 'unauthorized' },
    { method: 'GET', path: '/nowhere', token: ann.token, plain: undefined, code: 'not_found' },
    { method: 'PUT', path: '/api/domains', token: ann.token, plain: 'method not allowed', code: 'method_not_allowed' },
    { method: 'DELETE', path: '/api/domains/aaaaaaaaaaaa', token: ann.token, plain: 'not found', code: 'not_found' },
    {
      method: 'POST',
      path: '/api/domains',
      body: '{',
      token: ann.token,
      plain: 'token is required',
      code: 'invalid_json',
    },
    {
      ...{ method: 'POST', path: '/api/domain-mappings', token: ann.token, plain: 'invalid domain' },
      ...{ body: { container_id: 'x', target_port: 80 }, code: 'invalid_request' },
    },
  ];
  for (const { method, path, token, body, plain, code } of cases) {
    for (const headers of [{}, { accept: '*/*' }, { accept: 'text/plain' }]) {
      const said = await network.call(token, method, path, body, headers);
      assert.match(said.headers.get('content-type') ?? '', /^text\/plain/);
      if (plain !== undefined) assert.equal(said.text, plain);
    }
    const json = await network.call(token, method, path, body, accept);
    assert.match(json.headers.get('content-type') ?? '', /^application\/json/);
    assert.equal(json.json.code, code);
    assert.equal(typeof json.json.error, 'string');
  }
  const bad = await network.call(ann.token, 'POST', '/api/domain-mappings', { target_port: 80 }, accept);
  assert.ok(Array.isArray(bad.json.fields) && bad.json.fields.length > 0);

  const client = new TroupeClient({ url: network.url, token: ann.token, transport: nodeTransport() });
  const body = { container_id: 'aaaaaaaaaaaa', domain: 'www.example.org', target_port: 22 };
  const refused = await client.call('createMapping', { body }).catch((error: unknown) => error);
  assert.ok(refused instanceof TroupeError);
  assert.deepEqual([refused.code, refused.fields.map(({ path }) => path)], ['invalid_request', ['target_port']]);
});
