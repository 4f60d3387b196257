/** Domain mappings over HTTP. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readAudit } from '../../storage/audit.ts';
import { setCertificateDetail } from '../../storage/network/mappings.ts';
import { networkNews } from '../../storage/network/news.ts';
import { mappingSource } from '../../storage/network/served-mappings.ts';
import { BROKEN_ZONE } from '../support/network/dns-server.ts';
import { verifiedMapping } from '../support/network/verified-mapping.ts';
import { INGRESS, openNetwork } from '../support/service/network.ts';
import { DOMAIN } from '../support/service/node.ts';
import { until } from '../support/until.ts';

const HOUR = 3_600_000;
const MAPPING_KEYS = [
  ...['checked_at', 'cname_target', 'container_id', 'created_at', 'domain', 'id', 'next_check_at', 'records', 'status'],
  ...['target_port', 'verify_name', 'verify_token', 'zone'],
];

test('a mapping outside of owned zones waits for its TXT record, and verify finds it', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  const containerId = await network.container(ann);
  const created = await network.map(ann, 'www.example.org', containerId);
  assert.deepEqual(Object.keys(created).sort(), MAPPING_KEYS);
  assert.equal(created.status, 'pending');
  assert.equal(created.container_id, containerId);
  assert.equal(created.verify_name, '_svc-verify.www.example.org');
  assert.match(String(created.verify_token), /^svc-verify-[\w-]{20,}$/);
  assert.deepEqual(await network.mapping(ann, 'www.example.org'), created);
  assert.equal(created.checked_at, null);

  const path = `/api/domain-mappings/${created.id}/verify`;
  const none = await network.call(ann.token, 'POST', path);
  assert.equal(none.status, 200);
  assert.deepEqual(Object.keys(none.json).sort(), ['detail', 'status']);
  assert.equal(none.json.status, 'pending');
  for (const part of [
    '_svc-verify.www.example.org',
    String(created.verify_token),
    network.dns.address,
    'no TXT record',
  ])
    assert.ok(String(none.json.detail).includes(part), `${part} in ${none.json.detail}`);

  await network.dns.set('_svc-verify.www TXT "something else"');
  const wrong = await network.call(ann.token, 'POST', path);
  assert.match(String(wrong.json.detail), /other values: "something else"/);

  await network.dns.set(`_svc-verify.www TXT "${created.verify_token}"`);
  assert.deepEqual((await network.call(ann.token, 'POST', path)).json, { status: 'verified' });
  assert.deepEqual((await network.call(ann.token, 'POST', path)).json, { status: 'verified' });
  const shown = await network.mapping(ann, 'www.example.org');
  const times = { checked_at: shown?.checked_at, next_check_at: shown?.next_check_at };
  assert.deepEqual(shown, { ...created, ...times, status: 'verified', certificate_until: null });
  assert.ok(Date.parse(String(shown?.checked_at)) >= Date.parse(String(created.created_at)));
  assert.ok(Date.parse(String(shown?.next_check_at)) > network.clock.now());
  await until(() => network.news.some(({ kind }) => kind === 'verified'), { what: 'the news of it' });
});

test('records are named in their zone, too; at its top there is no CNAME', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  const containerId = await network.container(ann);
  // An alias of a zone's top is no zone itself.
  await network.dns.set('www CNAME example.org.');
  const [www, deep, top] = [
    await network.map(ann, 'www.example.org', containerId),
    await network.map(ann, 'a.b.example.org', containerId),
    await network.map(ann, 'example.org', containerId),
  ];
  assert.deepEqual(www, {
    ...www,
    zone: 'example.org',
    records: [
      {
        type: 'TXT',
        name: '_svc-verify.www.example.org',
        name_in_zone: '_svc-verify.www',
        value: www.verify_token,
      },
      { type: 'CNAME', name: 'www.example.org', name_in_zone: 'www', value: INGRESS },
    ],
  });
  const inZone = ({ records }: Record<string, unknown>) =>
    Array.isArray(records) ? records.map(({ name_in_zone }: { name_in_zone: string }) => name_in_zone) : [];
  assert.deepEqual(inZone(deep), ['_svc-verify.a.b', 'a.b']);
  assert.deepEqual(inZone(top), ['_svc-verify', '@']);
  assert.match(JSON.stringify(top.records), /no CNAME can stand at the top of the zone example\.org: make an ALIAS/);
});

test('a zone that could not be found at first is found by a later look', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  const containerId = await network.container(ann);
  const unknown = await network.map(ann, `www.${BROKEN_ZONE}`, containerId);
  assert.equal(unknown.zone, undefined);
  assert.deepEqual(unknown.records, [
    { type: 'TXT', name: `_svc-verify.www.${BROKEN_ZONE}`, value: unknown.verify_token },
    { type: 'CNAME', name: `www.${BROKEN_ZONE}`, value: INGRESS },
  ]);
  await network.db.run(`update domain_mappings set domain = 'late.example.org' where id = $1`, [unknown.id]);
  network.clock.advance(31_000);
  await until(async () => (await network.mapping(ann, 'late.example.org'))?.zone === 'example.org', {
    what: 'the zone is found',
  });
});

test('the background finds a record by itself, and goes on after a restart', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  const created = await network.map(ann, 'a.example.org');
  await network.restart();
  await network.dns.set(`_svc-verify.a TXT "${created.verify_token}"`);
  network.clock.advance(31_000);
  await until(async () => (await network.mapping(ann, 'a.example.org'))?.status === 'verified', { what: 'verified' });
});

test('a mapping expires after 7 days, and a verify makes it pending again', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  const created = await network.map(ann, 'a.example.org');
  const status = async () => (await network.mapping(ann, 'a.example.org'))?.status;
  network.clock.advance(167 * HOUR);
  await until(async () => String((await network.mapping(ann, 'a.example.org'))?.detail).includes('no TXT record'), {
    what: 'it was looked at',
  });
  assert.equal(await status(), 'pending');
  network.clock.advance(HOUR + 60_000);
  await until(async () => (await status()) === 'failed', { what: 'it failed' });
  assert.match(
    String((await network.mapping(ann, 'a.example.org'))?.detail),
    /^not verified within 7 days: .*no TXT record/,
  );

  await network.dns.set(`_svc-verify.a TXT "${created.verify_token}"`);
  const again = await network.call(ann.token, 'POST', `/api/domain-mappings/${created.id}/verify`);
  assert.equal(again.json.status, 'pending');
  await until(async () => (await status()) === 'verified', { what: 'the background verifies it' });
});

test('resolvers that are down, or answer SERVFAIL, let no mapping expire', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  const created = await network.map(ann, 'a.example.org');
  const broken = await network.map(ann, `a.${BROKEN_ZONE}`, String(created.container_id));
  const seen = await network.call(ann.token, 'POST', `/api/domain-mappings/${broken.id}/verify`);
  assert.equal(seen.json.status, 'pending');
  assert.match(String(seen.json.detail), /not looked up \(SERVFAIL\)\. It is looked for again by itself$/);
  await network.dns.stop();
  network.clock.advance(169 * HOUR);
  const shown = async () => String((await network.mapping(ann, 'a.example.org'))?.detail);
  await until(async () => (await shown()).includes('not looked up'), { what: 'it was looked at', timeoutMs: 60_000 });
  for (const name of ['a.example.org', `a.${BROKEN_ZONE}`])
    assert.equal((await network.mapping(ann, name))?.status, 'pending');
});

test('split strings and many records prove; an alias and what another was given do not', async (t) => {
  const network = await openNetwork(t);
  const [ann, eve] = [await network.person(), await network.person()];
  const created = await network.map(ann, 'a.example.org');
  const other = await network.map(eve, 'b.example.org');
  const token = String(created.verify_token);
  const verify = async () => (await network.call(ann.token, 'POST', `/api/domain-mappings/${created.id}/verify`)).json;

  await network.dns.set(`_svc-verify.a TXT "${other.verify_token}"`);
  assert.equal((await verify()).status, 'pending');
  await network.dns.set('_svc-verify.a CNAME evil', `evil TXT "${token}"`);
  const alias = await verify();
  assert.equal(alias.status, 'pending');
  assert.match(String(alias.detail), /alias \(CNAME\) of evil\.example\.org/);
  await network.dns.set('*.a CNAME evil', '*.example.org. CNAME evil', `evil TXT "${token}"`);
  assert.equal((await verify()).status, 'pending');

  // More than fits into one datagram: the answer comes truncated, and again over TCP.
  const many = Array.from({ length: 40 }, (_, n) => `_svc-verify.a TXT "${n}${'x'.repeat(200)}"`);
  await network.dns.set(...many);
  assert.match(String((await verify()).detail), /and 37 more/);
  await network.dns.set(...many, `_svc-verify.a TXT "${token.slice(0, 7)}" "${token.slice(7)}"`);
  assert.deepEqual(await verify(), { status: 'verified' });
});

test('resolvers that fail are told apart from records that are missing', async (t) => {
  const network = await openNetwork(t, { resolvers: (dns) => `${dns},127.0.0.1:9` });
  const ann = await network.person();
  // The server refuses questions about zones it does not have.
  const elsewhere = await network.map(ann, 'www.example.com');
  const { json } = await network.call(ann.token, 'POST', `/api/domain-mappings/${elsewhere.id}/verify`);
  assert.equal(json.status, 'pending');
  assert.match(String(json.detail), /not looked up \(it refuses the question\)/);
  assert.match(String(json.detail), /127\.0\.0\.1:9: not looked up/);
  // One of two is down: the other decides.
  const created = await network.map(ann, 'a.example.org', String(elsewhere.container_id));
  await network.dns.set(`_svc-verify.a TXT "${created.verify_token}"`);
  const found = await network.call(ann.token, 'POST', `/api/domain-mappings/${created.id}/verify`);
  assert.deepEqual(found.json, { status: 'verified' });
});

test('hostnames that nobody may map are invalid', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  const container_id = await network.container(ann);
  for (const domain of [
    ...['', 'localhost', 'localhost.', 'foo.localhost', 'a.local', 'com', 'co.uk', 'github.io', '*.example.org'],
    ...[
      '127.0.0.1',
      '::1',
      '[::1]',
      '::ffff:127.0.0.1',
      '0x7f.1',
      '0x7f000001',
      '2130706433',
      '0177.0.0.1',
      '１２７.0.0.1',
    ],
    ...['169.254.169.254', '10.0.0.1', 'fc00::1', '0.0.0.0', 'a_b.example.org', '_dmarc.example.org'],
    ...[`${'a'.repeat(64)}.org`, `${'a.'.repeat(125)}org.`.padStart(254, 'a'), 'a..org', '.example.org', 'a.org..'],
    ...[
      '-a.org',
      'a-.org',
      'http://a.org',
      'a.org:443',
      'a.org/',
      'a b.org',
      ' a.org',
      'a.org\n',
      'a\0.org',
      'xn--.org',
      'ab--cd.org',
    ],
    ...[DOMAIN, `x.${DOMAIN}`, `X.${DOMAIN.toUpperCase()}.`, INGRESS, 'registry.test', 'x.registry.test'],
    ...[42, null, ['a.org'], {}],
  ]) {
    const reply = await network.call(ann.token, 'POST', '/api/domain-mappings', {
      container_id,
      domain,
      target_port: 80,
    });
    assert.deepEqual([reply.status, reply.text], [400, 'invalid domain'], JSON.stringify(domain));
    assert.match(reply.headers.get('content-type') ?? '', /^text\/plain/);
  }
});

test('a hostname is mapped once, in whatever form it is written', async (t) => {
  const network = await openNetwork(t);
  const [ann, eve] = [await network.person(), await network.person()];
  const [mine, hers] = [await network.container(ann), await network.container(eve)];
  const ask = (person: typeof ann, domain: string) => {
    const body = { domain, container_id: person === ann ? mine : hers, target_port: 8000 };
    return network.call(person.token, 'POST', '/api/domain-mappings', body);
  };
  assert.equal((await ask(ann, 'Bücher.Example.org.')).json.domain, 'xn--bcher-kva.example.org');
  for (const domain of [
    'bücher.example.org',
    'XN--BCHER-KVA.EXAMPLE.ORG',
    'xn--bcher-kva.example.org.',
    'bücher。example。org',
    'bu\u0308cher.example.org',
  ])
    for (const person of [ann, eve]) {
      const { status, text } = await ask(person, domain);
      assert.deepEqual([status, text], [409, 'domain already in use'], domain);
    }
  // Names around it are other names: a homograph, the parent, one below.
  for (const domain of ['bücһer.example.org', 'example.org', 'x.xn--bcher-kva.example.org'])
    assert.equal((await ask(eve, domain)).status, 201, domain);
});

test('every refusal of mappings has its status and its text', async (t) => {
  const network = await openNetwork(t);
  const [ann, eve] = [await network.person(), await network.person()];
  const container_id = await network.container(ann);
  const good = { container_id, domain: 'a.example.org', target_port: 443 };
  const post = async (token: string, body: unknown) => {
    const { status, text } = await network.call(token, 'POST', '/api/domain-mappings', body);
    return [status, text];
  };
  for (const target_port of [0, 79, 81, 7999, 9000, 443.5, '443', null, undefined, -80, 2 ** 40])
    assert.deepEqual(await post(ann.token, { ...good, target_port }), [400, 'port must be 80, 443, or 8000-8999']);
  assert.deepEqual(await post(ann.token, { ...good, container_id: 'aaaaaaaaaaaa' }), [404, 'container not found']);
  for (const no of ['../x', 'a\0b', '\u{1f600}'])
    assert.deepEqual(await post(ann.token, { ...good, container_id: no }), [404, 'container not found']);
  assert.deepEqual(await post(ann.token, { ...good, container_id: undefined }), [400, 'container_id is required']);
  assert.deepEqual(await post(eve.token, good), [403, 'forbidden']);
  assert.deepEqual(await post(ann.token, 'not json'), [400, 'invalid request body']);
  assert.deepEqual(await post(ann.token, '[]'), [400, 'invalid request body']);
  assert.deepEqual(await post('', good), [401, 'unauthorized']);
  assert.deepEqual(await post('nonsense', good), [401, 'unauthorized']);
  const created = await network.map(ann, 'a.example.org', container_id);
  for (const id of [created.id, 'aaaaaaaaaaaa', 'x', '..%2f'])
    for (const [method, path] of [
      ['DELETE', ''],
      ['POST', '/verify'],
    ] as const) {
      const reply = await network.call(eve.token, method, `/api/domain-mappings/${id}${path}`);
      assert.deepEqual([reply.status, reply.text], [404, 'not found'], `${method} ${id}${path}`);
    }
  const missing = await network.call(ann.token, 'GET', '/api/nothing');
  assert.equal(missing.status, 404);
  assert.match(missing.text, /^This service has no such path/);
  assert.equal((await network.call(ann.token, 'PUT', '/api/domain-mappings')).status, 405);
  // The listing of one shows nothing of the other's.
  assert.equal(await network.mapping(eve, 'a.example.org'), undefined);
  const gone = await network.call(ann.token, 'DELETE', `/api/domain-mappings/${created.id}`);
  assert.deepEqual([gone.status, gone.text], [204, '']);
  assert.equal((await network.call(ann.token, 'DELETE', `/api/domain-mappings/${created.id}`)).status, 404);
  await until(() => network.news.some((news) => news.kind === 'removed' && news.hostname === 'a.example.org'), {
    what: 'news',
  });
  assert.equal((await post(ann.token, good))[0], 201);
});

test('a mapping says what gateways keep of its answers, and its user changes that', async (t) => {
  const network = await openNetwork(t);
  const [ann, bob] = [await network.person(), await network.person()];
  const plain = await network.map(ann, 'plain.example.org');
  assert.ok(!('cache' in plain));
  const body = { container_id: await network.container(ann), domain: 'www.example.org', target_port: 443 };
  const post = (cache: string) => network.call(ann.token, 'POST', '/api/domain-mappings', { ...body, cache });
  assert.equal((await post('some')).status, 400);
  const created = (await post('explicit')).json;
  assert.equal(created.cache, 'explicit');
  assert.equal((await network.mapping(ann, 'www.example.org'))?.cache, 'explicit');

  const change = (token: string, cache: string) =>
    network.call(token, 'PATCH', `/api/domain-mappings/${created.id}`, { cache });
  assert.equal((await change(bob.token, 'off')).status, 404);
  assert.equal((await change(ann.token, 'some')).status, 400);
  const { status, json } = await change(ann.token, 'off');
  assert.deepEqual([status, json], [200, { ...created, cache: 'off' }]);
  const [entry] = await readAudit(network.db, { limit: 1 });
  assert.deepEqual(
    [entry?.action, entry?.target, entry?.detail],
    ['mapping.change', created.id, { domain: 'www.example.org', cache: 'off' }],
  );
  assert.ok(!network.news.some(({ kind }) => kind === 'changed'), 'nobody serves it yet');
  await network.db.run(`update domain_mappings set status = 'verified', verified_at = now() where id = $1`, [
    created.id,
  ]);
  assert.ok(!('cache' in (await change(ann.token, 'default')).json));
  await until(() => network.news.some(({ kind }) => kind === 'changed'), { what: 'the news of it' });
  const source = mappingSource(network.db, networkNews(network.db));
  const served = { hostname: 'www.example.org', containerId: body.container_id, targetPort: 443 };
  assert.deepEqual(await source.named(['www.example.org']), [served]);
  await change(ann.token, 'explicit');
  assert.deepEqual(await source.after('', 10), [{ ...served, cache: 'explicit' }]);
});

test('scopes: the exact one, a broader one, and what is missing is named with its id', async (t) => {
  const network = await openNetwork(t);
  const [ann, eve] = [await network.person(), await network.person()];
  const { id: connection } = await network.connect(ann, 'example.net');
  const created = await network.map(ann, 'a.example.org');
  const cases = [
    ['GET', '/api/domains', 'domains', 'read', 200],
    ['POST', `/api/domains/${connection}/refresh`, `domains.${connection}`, 'create', 200],
    ['GET', '/api/domain-mappings', 'domain-mappings', 'read', 200],
    ['POST', `/api/domain-mappings/${created.id}/verify`, `domain-mappings.${created.id}`, 'create', 200],
    ['POST', '/api/domains', 'domains', 'create', 400],
    ['POST', '/api/domain-mappings', 'domain-mappings', 'create', 400],
    ['DELETE', `/api/domain-mappings/${created.id}`, `domain-mappings.${created.id}`, 'delete', 204],
    ['DELETE', `/api/domains/${connection}`, `domains.${connection}`, 'delete', 204],
  ] as const;
  const refused = async (scopes: Record<string, string[]>, method: string, path: string, key: string) => {
    const reply = await network.call(
      await network.apiToken(ann, scopes),
      method,
      path,
      method === 'POST' ? {} : undefined,
    );
    assert.deepEqual(
      [reply.status, reply.text],
      [403, `forbidden: missing ${key} scope`],
      `${method} ${path} with ${JSON.stringify(scopes)}`,
    );
  };
  for (const [method, path, resource, action, status] of cases) {
    const root = `networking.${ann.id}`;
    const key = `${root}.${resource}`;
    const wrong = action === 'read' ? 'create' : 'read';
    for (const scopes of [
      {},
      { networking: [action] },
      { [key]: [wrong] },
      { [`networking.${eve.id}`]: [action] },
      { [`compute.${ann.id}`]: [action] },
    ])
      await refused(scopes, method, path, key);
    if (resource.includes('.'))
      await refused({ [`${root}.${resource.split('.')[0]}.aaaaaaaaaaaa`]: [action] }, method, path, key);
    const levels = [key, `${root}.${resource.split('.')[0]}`, root];
    // What deletes can only be done once.
    for (const level of status === 204 ? levels.slice(-1) : levels) {
      const reply = await network.call(
        await network.apiToken(ann, { [level]: [action] }),
        method,
        path,
        method === 'POST' ? {} : undefined,
      );
      assert.equal(reply.status, status, `${method} ${path} with ${level}: ${reply.text}`);
    }
  }
});

test('a mapping goes with its container', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  const created = await network.map(ann, 'a.example.org');
  await network.db.tx(async (tx) => {
    await tx.run(`update containers set desired = 'deleted', slot = null where id = $1`, [created.container_id]);
    await tx.notify('compute', JSON.stringify({ kind: 'gone', containerId: created.container_id }));
  });
  await until(async () => (await network.mapping(ann, 'a.example.org')) === undefined, { what: 'it is gone' });
});

test('pages of the dashboard may call from other origins, and nobody else', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  const cookie = { cookie: `other=1; token=${ann.token}` };
  const own = [`https://${DOMAIN}`, `https://console.${DOMAIN}`, `https://a.b.${DOMAIN}:8443`];
  const foreign = [
    'https://evil.test',
    // Whoever is on the way may have put anything into it.
    `http://console.${DOMAIN}`,
    `https://${DOMAIN}.evil.test`,
    `https://not${DOMAIN}`,
    `https://abcdefghijkl.compute.${DOMAIN}`,
    'null',
  ];
  for (const origin of [...own, ...foreign]) {
    const allowed = own.includes(origin) ? origin : null;
    const preflight = await network.call('', 'OPTIONS', '/api/domain-mappings', undefined, {
      ...{ origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' },
    });
    assert.equal(preflight.status, 204);
    assert.equal(preflight.headers.get('access-control-allow-origin'), allowed, origin);
    assert.equal(preflight.headers.get('access-control-allow-headers') !== null, allowed !== null);
    const reply = await network.call(ann.token, 'GET', '/api/domain-mappings', undefined, { origin });
    assert.equal(reply.status, 200);
    assert.equal(reply.headers.get('access-control-allow-origin'), allowed, origin);
    assert.equal(reply.headers.get('access-control-allow-credentials'), allowed === null ? null : 'true');
    assert.match(reply.headers.get('vary') ?? '', /origin/);
    // The cookie counts for pages of our own alone.
    assert.equal(
      (await network.call('', 'GET', '/api/domain-mappings', undefined, { origin, ...cookie })).status,
      allowed === null ? 401 : 200,
      origin,
    );
  }
  assert.equal((await network.call('', 'GET', '/api/domain-mappings', undefined, cookie)).status, 200);
});

test('a cookie that a container’s page planted beside the token makes nobody somebody else', async (t) => {
  const network = await openNetwork(t);
  const [ann, bob] = [await network.person(), await network.person()];
  const statusOf = async (cookie: string) =>
    (await network.call('', 'GET', '/api/domain-mappings', undefined, { cookie, 'sec-fetch-site': 'same-origin' }))
      .status;
  assert.equal(await statusOf(`token=${ann.token}; token=${bob.token}`), 401);
  assert.equal(await statusOf(`token=${bob.token}; a=b; token=${bob.token}`), 401);
  assert.equal(await statusOf(`__Host-token=${ann.token}`), 200);
  // What only the host itself can have set wins.
  assert.equal(await statusOf(`token=x; __Host-token=${ann.token}; token=y`), 200);
  assert.equal(await statusOf(`token=${ann.token}; __Host-token=x`), 401);
  assert.equal(await statusOf(`token=x; __Host-troupe=${ann.token}; token=y`), 200);
  assert.equal(await statusOf(`token=${ann.token}; __Host-troupe=x`), 401);
});

test('what a certificate waits for shows in the mapping, and is not written down for one that is gone', async (t) => {
  const network = await openNetwork(t);
  const ann = await network.person();
  const created = await network.map(ann, 'a.example.org');
  assert.equal(await verifiedMapping(network.db, 'a.example.org'), null);
  assert.equal(await setCertificateDetail(network.db, 'a.example.org', 'too early'), false);
  await network.dns.set(`_svc-verify.a TXT "${created.verify_token}"`);
  await network.call(ann.token, 'POST', `/api/domain-mappings/${created.id}/verify`);
  const served = await verifiedMapping(network.db, 'a.example.org');
  assert.deepEqual(
    [served?.id, served?.userId, served?.containerId, served?.targetPort],
    [created.id, ann.id, created.container_id, 443],
  );
  assert.deepEqual(await mappingSource(network.db, networkNews(network.db)).named(['a.example.org', 'b.example.org']), [
    { hostname: 'a.example.org', containerId: created.container_id, targetPort: 443 },
  ]);
  assert.equal(await setCertificateDetail(network.db, 'a.example.org', 'the CA asks to wait'), true);
  assert.equal((await network.mapping(ann, 'a.example.org'))?.detail, 'the CA asks to wait');
  await network.call(ann.token, 'DELETE', `/api/domain-mappings/${created.id}`);
  assert.equal(await setCertificateDetail(network.db, 'a.example.org', 'too late'), false);
  assert.equal(await verifiedMapping(network.db, 'a.example.org'), null);
});
