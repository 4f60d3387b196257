/** Owned domains and automated mappings over HTTP. */

import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { no } from '../support/network/dns-provider.ts';
import { INGRESS, type NetworkUnderTest, openNetwork } from '../support/service/network.ts';
import { until } from '../support/until.ts';

/** Nothing that the API says or logs holds the token. */
function holdsNoToken(network: NetworkUnderTest, token: string, ...texts: readonly string[]): void {
  for (const text of [
    ...texts,
    JSON.stringify(network.log.lines, (_key, value) =>
      value instanceof Error ? `${value.stack} ${JSON.stringify(value)} ${String(value.cause)}` : value,
    ),
  ])
    assert.ok(!text.includes(token), text);
}

test('a token is connected, listed, refreshed and disconnected, and never shown', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  network.provider.zones.set('good', [
    { id: 'z1', name: 'Example.NET', status: 'active' },
    { id: 'z2', name: 'example.com', status: 'active' },
  ]);
  const made = await network.call(ann.token, 'POST', '/api/domains', { token: 'good' });
  assert.equal(made.status, 201);
  assert.deepEqual(made.json, { id: made.json.id, zones: ['example.com', 'example.net'] });
  const list = await network.call(ann.token, 'GET', '/api/domains');
  const [first] = Array.isArray(list.json.connections) ? list.json.connections : [];
  assert.deepEqual(list.json, {
    connections: [{ id: made.json.id, zones: ['example.com', 'example.net'], created_at: first.created_at }],
  });
  assert.match(first.created_at, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  network.provider.zones.get('good')?.shift();
  const refreshed = await network.call(ann.token, 'POST', `/api/domains/${made.json.id}/refresh`);
  assert.deepEqual([refreshed.status, refreshed.json], [200, { id: made.json.id, zones: ['example.com'] }]);
  const eve = await network.person();
  assert.equal((await network.call(eve.token, 'POST', `/api/domains/${made.json.id}/refresh`)).status, 404);
  const foreign = await network.call(eve.token, 'DELETE', `/api/domains/${made.json.id}`);
  assert.deepEqual([foreign.status, foreign.text], [404, 'not found']);
  const gone = await network.call(ann.token, 'DELETE', `/api/domains/${made.json.id}`);
  assert.deepEqual([gone.status, gone.text], [204, '']);
  assert.deepEqual((await network.call(ann.token, 'GET', '/api/domains')).json, { connections: [] });
  holdsNoToken(network, 'good', made.text, list.text, refreshed.text);
});

test('a token that is connected again is the connection that is there, with its zones of now', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  const first = await network.connect(ann, 'example.net');
  network.provider.zones.get(first.token)?.push({ id: 'z2', name: 'example.com', status: 'active' });
  const post = (token: string, who = ann) => network.call(who.token, 'POST', '/api/domains', { token });
  const again = await post(first.token);
  assert.deepEqual([again.status, again.json], [201, { id: first.id, zones: ['example.com', 'example.net'] }]);
  const connections = async (who = ann) => {
    const { json } = await network.call(who.token, 'GET', '/api/domains');
    return Array.isArray(json.connections) ? json.connections : [];
  };
  const [one, ...others] = await connections();
  assert.deepEqual([one.id, one.zones, others], [first.id, ['example.com', 'example.net'], []]);
  // Of two at once, too, and somebody else's is theirs.
  const eve = await network.person();
  const both = await Promise.all([post(first.token, eve), post(first.token, eve)]);
  assert.equal(both[0].json.id, both[1].json.id);
  assert.notEqual(both[0].json.id, first.id);
  assert.equal((await connections(eve)).length, 1);
  holdsNoToken(network, first.token, again.text);
});

test('a token that is missing, wrong or without zones is refused', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  network.provider.zones.set('empty', []);
  network.provider.zones.set('pending', [{ id: 'z9', name: 'example.net', status: 'pending' }]);
  const post = async (body: unknown) => {
    const { status, text } = await network.call(ann.token, 'POST', '/api/domains', body);
    return [status, text];
  };
  for (const body of [{}, { token: '' }, { token: '  ' }, { token: 7 }, { token: null }, '[]', 'nonsense', 'null'])
    assert.deepEqual(await post(body), [400, 'token is required'], JSON.stringify(body));
  // Anybody may add somebody else's name to an account, where it stays pending: it proves nothing.
  for (const token of ['unknown', 'empty', 'pending', 'bad token', 'a\nb', 'ü', 'x'.repeat(600)])
    assert.deepEqual(await post({ token }), [400, 'token invalid or lacks zone access'], token.slice(0, 20));
  assert.deepEqual(await post(undefined), [400, 'token is required']);
});

test('without an encryption key every endpoint of owned domains says so', async (t) => {
  const network = await openNetwork(t, { isBare: true });
  const ann = await network.person();
  for (const [method, path, body] of [
    ['GET', '/api/domains'],
    ['POST', '/api/domains', { token: 'x' }],
    ['POST', '/api/domains', ''],
    ['DELETE', '/api/domains/aaaaaaaaaaaa'],
    ['DELETE', '/api/domains/x'],
    ['POST', '/api/domains/aaaaaaaaaaaa/refresh'],
  ] as const) {
    const reply = await network.call(ann.token, method, path, body);
    assert.deepEqual([reply.status, reply.text], [503, 'dns-provider integration not configured'], `${method} ${path}`);
    assert.equal((await network.call('', method, path, body)).status, 401);
  }
  // Mappings go on by TXT records.
  assert.equal((await network.map(ann, 'a.example.org')).status, 'pending');
});

test('a hostname in an owned zone is verified at once by a record that is made, and removed with it', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  await network.connect(ann, 'example.net', 'deep.example.net', 'ample.net');
  const container = await network.container(ann);
  const created = await network.map(ann, 'www.deep.example.net', container);
  assert.equal(created.status, 'verified');
  assert.equal(created.dns_automated, true);
  const [record] = network.provider.records;
  assert.deepEqual(
    [record?.zone, record?.type, record?.name, record?.content, record?.proxied],
    ['zone-deep.example.net', 'CNAME', 'www.deep.example.net', INGRESS, false],
  );
  const { dns_automated: _, ...plain } = created;
  assert.deepEqual(await network.mapping(ann, 'www.deep.example.net'), plain);
  assert.equal((await network.map(ann, 'xample.net', container)).status, 'pending');
  assert.equal((await network.map(ann, 'example.net', container)).status, 'verified');
  // Another's zones cover nothing of mine.
  const eve = await network.person();
  assert.equal((await network.map(eve, 'eve.example.net')).status, 'pending');

  assert.equal((await network.call(ann.token, 'DELETE', `/api/domain-mappings/${created.id}`)).status, 204);
  assert.deepEqual(
    network.provider.records.map(({ name }) => name),
    ['example.net'],
  );
});

test('DELETE leaves records that are not ours', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  await network.connect(ann, 'example.net');
  const container = await network.container(ann);
  const own = { zone: 'zone-example.net', type: 'CNAME', proxied: false, comment: '' };
  network.provider.records.push({ ...own, id: 'theirs', name: 'found.example.net', content: INGRESS });
  network.provider.records.push({ ...own, id: 'other', name: 'taken.example.net', content: 'elsewhere.test' });
  // It leads here already, so it is verified; it was the user who made it.
  const found = await network.map(ann, 'found.example.net', container);
  assert.equal(found.status, 'verified');
  // It leads elsewhere, and is left so: the user is told what to do instead.
  const taken = await network.map(ann, 'taken.example.net', container);
  assert.equal(taken.status, 'pending');
  assert.match(String(taken.detail), /has another record at the DNS provider.*TXT record _svc-verify\.taken/);
  const moved = await network.map(ann, 'moved.example.net', container);
  const record = network.provider.records.find(({ name }) => name === 'moved.example.net');
  assert.ok(record);
  record.content = 'elsewhere.test';
  for (const { id } of [found, taken, moved])
    assert.equal((await network.call(ann.token, 'DELETE', `/api/domain-mappings/${id}`)).status, 204);
  assert.deepEqual(network.provider.records.map(({ name }) => name).sort(), [
    'found.example.net',
    'moved.example.net',
    'taken.example.net',
  ]);
});

test('a zone that was given up since its snapshot proves nothing', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  const { token } = await network.connect(ann, 'example.net');
  const [zone] = network.provider.zones.get(token) ?? [];
  assert.ok(zone);
  zone.status = 'moved';
  const created = await network.map(ann, 'a.example.net');
  assert.equal(created.status, 'pending');
  assert.match(String(created.detail), /does not serve the zone example\.net/);
  assert.deepEqual(network.provider.records, []);
});

test('removing a connection ends automation, and leaves mappings and records', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  const { id } = await network.connect(ann, 'example.net');
  const container = await network.container(ann);
  await network.map(ann, 'a.example.net', container);
  assert.equal((await network.call(ann.token, 'DELETE', `/api/domains/${id}`)).status, 204);
  assert.equal((await network.mapping(ann, 'a.example.net'))?.status, 'verified');
  assert.equal(network.provider.records.length, 1);
  assert.equal((await network.map(ann, 'b.example.net', container)).status, 'pending');
});

test('zones of an older version are read at the first list', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  await network.connect(ann, 'example.net');
  await network.db.run('update owned_domains set zones_at = null');
  await network.db.run('delete from owned_zones');
  const zones = async () => JSON.stringify((await network.call(ann.token, 'GET', '/api/domains')).json);
  network.provider.fault = (_path, response) => {
    response.writeHead(500).end();
    return true;
  };
  assert.match(await zones(), /"zones":\[\]/);
  network.provider.fault = undefined;
  assert.match(await zones(), /"zones":\["example.net"\]/);
  const calls = network.provider.calls.length;
  assert.match(await zones(), /"zones":\["example.net"\]/);
  assert.equal(network.provider.calls.length, calls, 'they are read once');
});

test('zones over many pages are read whole or not at all', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  network.provider.pageSize = 20;
  const names = Array.from({ length: 45 }, (_, n) => `zone${n}.net`);
  const { id } = await network.connect(ann, ...names);
  const refresh = () => network.call(ann.token, 'POST', `/api/domains/${id}/refresh`);
  assert.deepEqual((await refresh()).json.zones, [...names].sort());
  let call = 0;
  network.provider.fault = (_path, response) => {
    if (++call !== 2) return false;
    no(response, 500, 10_000, 'Internal error');
    return true;
  };
  assert.equal((await refresh()).status, 502);
  call = 0;
  network.provider.fault = (_path, response) => {
    if (++call !== 2) return false;
    response.end(
      JSON.stringify({
        success: true,
        errors: [],
        result: [],
        result_info: { page: 2, total_pages: 3, total_count: 45 },
      }),
    );
    return true;
  };
  assert.equal((await refresh()).status, 502);
  network.provider.fault = undefined;
  const list = await network.call(ann.token, 'GET', '/api/domains');
  for (const name of names) assert.ok(list.text.includes(name), `${name} is still known`);
});

test('whatever the provider answers, refresh is a 502 without the token, and a mapping falls back', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  const { id, token } = await network.connect(ann, 'example.net');
  const container = await network.container(ann);
  const faults: Record<string, (response: ServerResponse) => void> = {
    401: (response) => no(response, 401, 10_000, `Authentication error ${token}`),
    403: (response) => no(response, 403, 9109, `Invalid access token ${token}`),
    429: (response) => no(response, 429, 971, 'Please wait', { 'retry-after': '77' }),
    500: (response) => no(response, 500, 1, token),
    html: (response) => response.writeHead(200, { 'content-type': 'text/html' }).end(`<html>${token}</html>`),
    'html 502': (response) => response.writeHead(502).end('<html>bad gateway</html>'),
    'success: false with 200': (response) => no(response, 200, 6003, `Invalid request headers ${token}`),
    'another error with 400': (response) => no(response, 400, 1004, `DNS Validation Error ${token}`),
    'not the shape': (response) => response.end('{"success":true,"errors":[],"result":{"zones":"none"}}'),
    'an endless body': (response) => response.end('x'.repeat(3_000_000)),
    'a redirect': (response) => response.writeHead(302, { location: 'http://127.0.0.1:9/' }).end(),
    reset: (response) => response.destroy(),
  };
  let count = 0;
  for (const [name, fault] of Object.entries(faults)) {
    network.provider.fault = (_path, response) => {
      fault(response);
      return true;
    };
    const reply = await network.call(ann.token, 'POST', `/api/domains/${id}/refresh`);
    assert.equal(reply.status, 502, `${name}: ${reply.text}`);
    assert.match(reply.headers.get('content-type') ?? '', /^text\/plain/);
    if (name === '429') assert.equal(reply.headers.get('retry-after'), '77');
    const hostname = `h${++count}.example.net`;
    const created = await network.map(ann, hostname, container);
    assert.equal(created.status, 'pending', name);
    holdsNoToken(network, token, reply.text, JSON.stringify(created));
    const connected = await network.call(ann.token, 'POST', '/api/domains', { token });
    assert.ok([400, 502].includes(connected.status), `${name}: ${connected.status}`);
    holdsNoToken(network, token, connected.text);
  }
  network.provider.fault = undefined;
  // What was only put off is made in the background.
  network.clock.advance(31_000);
  await until(async () => (await network.mapping(ann, 'h3.example.net'))?.status === 'verified', {
    what: 'the record is made after all',
  });
  assert.ok(network.provider.records.some(({ name }) => name === 'h3.example.net'));
});

test('a token that was damaged or moved to another row does not open', async (t) => {
  const network = await openNetwork(t);
  const [ann, eve] = [await network.person(), await network.person()];
  const mine = await network.connect(ann, 'example.net');
  const hers = await network.connect(eve, 'example.com');
  const refresh = (id: string) => network.call(ann.token, 'POST', `/api/domains/${id}/refresh`);
  await network.db.run(`update owned_domains set token = set_byte(token, 40, get_byte(token, 40) # 1) where id = $1`, [
    mine.id,
  ]);
  const damaged = await refresh(mine.id);
  assert.deepEqual(
    [damaged.status, damaged.text],
    [409, 'the stored token cannot be decrypted: disconnect and reconnect'],
  );
  // A mapping under it falls back to the TXT record.
  assert.equal((await network.map(ann, 'a.example.net')).status, 'pending');
  await network.db.run(
    'update owned_domains set token = (select token from owned_domains where id = $2) where id = $1',
    [mine.id, hers.id],
  );
  assert.equal((await refresh(mine.id)).status, 409);
  assert.equal((await network.call(ann.token, 'DELETE', `/api/domains/${mine.id}`)).status, 204);
});

test('a record that was made and not written down is found again', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  await network.connect(ann, 'example.net');
  const created = await network.map(ann, 'a.example.net');
  // As a crash between the provider's answer and the commit leaves it.
  await network.db.run(
    `update domain_mappings set status = 'pending', verified_at = null, record = 'wanted', record_id = null, next_check_at = now()
     where id = $1`,
    [created.id],
  );
  await until(async () => (await network.mapping(ann, 'a.example.net'))?.status === 'verified', {
    what: 'it is verified again',
  });
  assert.equal(network.provider.records.length, 1);
  assert.equal((await network.call(ann.token, 'DELETE', `/api/domain-mappings/${created.id}`)).status, 204);
  assert.deepEqual(network.provider.records, []);
});
