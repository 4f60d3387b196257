/** A hostname from its mapping to HTTPS: a running platform, a real container, a real DNS server, a real authority, and curl. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { z } from 'zod';
import { drawDomains } from '../../cmd/cli/domains.ts';
import { graphSchema } from '../../proto/monitor/endpoints.ts';
import type { Db } from '../../storage/db.ts';
import { allMappings } from '../../storage/network/overview.ts';
import { startBox } from '../support/clients/container.ts';
import {
  addUsers,
  deleteAll,
  logIn,
  type RunningPlatform,
  request,
  startPlatform,
  troupe,
} from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { runIn } from '../support/monitor/event-streams.ts';
import { type Balancer, openBalancer } from '../support/network/balancer.ts';
import { type StandIn, standIn } from '../support/network/dns-provider.ts';
import { type DnsServer, dnsServer } from '../support/network/dns-server.ts';
import { type Pebble, skipWithoutPebble, startPebble } from '../support/network/pebble.ts';
import { skipWithout } from '../support/require.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const PASSWORD = 'the admin of this test';
const skip = skipWithoutDocker() || skipWithoutPebble() || skipWithout('knotd', 'curl');
const PATIENT = { timeoutMs: 120_000 } as const;
const mappingSchema = z
  .object({
    ...{ id: z.string(), domain: z.string(), container_id: z.string(), target_port: z.int() },
    ...{ status: z.enum(['pending', 'verified', 'failed']), verify_name: z.string(), verify_token: z.string() },
    ...{ dns_automated: z.literal(true).optional(), detail: z.string().optional(), cname_target: z.string() },
    ...{ created_at: z.iso.datetime(), checked_at: z.iso.datetime().nullable() },
    ...{ next_check_at: z.iso.datetime().nullable(), certificate_until: z.iso.datetime().nullable().optional() },
    ...{ zone: z.literal('example.org').optional(), records: z.array(z.object({ name: z.string() })).length(2) },
  })
  .strict();

describe('a hostname mapped to a container', { skip, timeout: 900_000 }, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let platform: RunningPlatform;
  let [db, dns, pebble, provider, balancer]: [Db?, DnsServer?, Pebble?, StandIn?, Balancer?] = [];
  let env: Record<string, string> = {};
  let [data, token, box, root] = ['', '', '', ''];
  /** A squatter. */
  const eve = { token: '', box: '' };

  before(async () => {
    data = await tempDir(cleanup);
    const database = await testDatabase();
    cleanup.after(() => database.close());
    db = database.db;
    dns = await dnsServer(cleanup, 'example.org');
    // Port 443 of the world, as the authority sees it.
    balancer = await openBalancer(cleanup);
    pebble = await startPebble(cleanup, { tlsPort: balancer.port, dns: dns.address });
    provider = await standIn(cleanup);
    env = {
      ...{ DATABASE_URL: database.url, DEFAULT_IMAGE: await tinyImage(), ADMIN_PASSWORD: PASSWORD },
      ...{ DNS_RESOLVERS: dns.address, DNS_PROVIDER_URL: provider.url, INGRESS_HOST: 'ingress.example.org' },
      ...{ ACME_DIRECTORY_URL: pebble.directoryUrl, ACME_CA_FILE: pebble.caFile },
    };
    platform = await startPlatform({ data, env });
    cleanup.after(() => platform.stop());
    balancer.targets = [httpsPort()];
    token = await logIn(platform.ready.urls.auth, 'admin', PASSWORD);
    box = (await startBox(platform.ready.urls.compute, token, data)).id;
    await addUsers([['eve', PASSWORD]], data, env);
    const { auth, compute } = platform.ready.urls;
    eve.token = await logIn(auth, 'eve', PASSWORD);
    const key = { name: 'eve', public_key: publicKey() };
    const { json } = await request('POST', `${compute}/compute/ssh-keys`, { token: eve.token, body: key });
    const body = { name: 'squat', ssh_key_ids: [json.id] };
    const made = await request('POST', `${compute}/compute/containers`, { token: eve.token, body });
    eve.box = z.string().parse(made.json.id);
    await runIn(box, 'mkdir -p /tmp/w; echo "the page" > /tmp/w/index.html; httpd -p 8080 -h /tmp/w');
    root = join(data, 'root.pem');
    await writeFile(root, await pebble.root());
  });
  after(async () => {
    if (token !== '') await deleteAll(platform.ready.urls.compute, ...(eve.token === '' ? [] : [eve.token]), token);
    for (const end of ends) await end();
  });

  const httpsPort = () => Number(new URL(platform.ready.urls.https).port);
  const records = (...lines: string[]) => dns?.set('ingress A 127.0.0.1', ...lines);
  const net = (method: string, path: string, body?: unknown) =>
    request(method, `${platform.ready.urls.net}/api/${path}`, { token, ...(body === undefined ? {} : { body }) });
  const map = async (domain: string) => {
    const { status, json } = await net('POST', 'domain-mappings', { container_id: box, domain, target_port: 8080 });
    assert.equal(status, 201, JSON.stringify(json));
    return mappingSchema.parse(json);
  };
  /** Eve maps a hostname before its owner does. */
  const squat = async (domain: string) => {
    const body = { container_id: eve.box, domain, target_port: 8080 };
    const { status, json } = await request('POST', `${platform.ready.urls.net}/api/domain-mappings`, {
      ...{ token: eve.token, body },
    });
    assert.deepEqual([status, json.status], [201, 'pending']);
  };
  /** How far eve's hostnames are. */
  const squatted = async () => {
    const { json } = await request('GET', `${platform.ready.urls.net}/api/domain-mappings`, { token: eve.token });
    const mappings = z.array(mappingSchema).parse(json.domains);
    return Object.fromEntries(mappings.map(({ domain, status }) => [domain, status]));
  };
  /** `troupe hostname ...` of the owner. */
  const hostname = (...args: string[]) =>
    troupe(['hostname', ...args], {
      env: {
        ...{ XDG_CONFIG_HOME: '/nowhere', TROUPE_URL: platform.ready.urls.https, TROUPE_TOKEN: token },
        TROUPE_CA: join(data, 'ca.pem'),
      },
    });
  const shown = async (id: string) => {
    const { json } = await net('GET', 'domain-mappings');
    return z
      .array(mappingSchema)
      .parse(json.domains)
      .find((one) => one.id === id);
  };
  /** Waits until the owner of a mapping is told this. */
  const told = (id: string, pattern: RegExp) =>
    until(async () => pattern.test((await shown(id))?.detail ?? ''), { ...PATIENT, what: `${pattern}` });
  const curl = async (url: string, ...options: string[]) => {
    const { hostname, port } = new URL(url);
    const common = ['-sS', '--max-time', '60', '--noproxy', '*', '--cacert', root];
    const { stdout } = await promisify(execFile)('curl', [
      ...[...common, ...options, '--resolve', `${hostname}:${port}:127.0.0.1`, url],
    ]);
    return stdout;
  };
  /** What the operator sees. */
  const list = async () => {
    assert.ok(db !== undefined);
    return `${drawDomains(await allMappings(db, 100), new Date())}\n`;
  };
  const command = async (...args: string[]) => {
    const { code, stdout, stderr } = await troupe(['domains', 'list', '--data', data, ...args], { env });
    assert.equal(code, 0, stderr);
    return stdout;
  };

  test('waits for its TXT record, then serves https with a chain that curl believes, and says at each step what to do', async (t) => {
    assert.equal(await command(), 'No hostname is mapped.\n');
    await records('shop CNAME ingress');
    const created = await map('Shop.Example.org.');
    const { id } = created;
    assert.deepEqual(
      [created.status, created.domain, created.verify_name],
      ['pending', 'shop.example.org', '_svc-verify.shop.example.org'],
    );
    const before = await net('POST', `domain-mappings/${id}/verify`);
    assert.equal(before.json.status, 'pending');
    assert.equal(
      before.json.detail,
      `looked for the TXT record _svc-verify.shop.example.org with the value ${created.verify_token}; ${dns?.address}: no TXT record. Make that record, or wait if you have: resolvers remember for a while what they found before`,
    );
    assert.match(
      await list(),
      new RegExp(
        `^HOSTNAME +STATUS +OWNER +CONTAINER +CERTIFICATE\\nshop\\.example\\.org +pending +admin +${box}:8080 +-\\n  looked for the TXT`,
      ),
    );
    // Nothing of it is served.
    await assert.rejects(curl(`https://shop.example.org:${httpsPort()}/`), /unrecognized name|alert/i);

    await records('shop CNAME ingress', `_svc-verify.shop TXT "${created.verify_token}"`);
    const began = performance.now();
    assert.deepEqual((await net('POST', `domain-mappings/${id}/verify`)).json, { status: 'verified' });
    const page = await until(() => curl(`https://shop.example.org:${httpsPort()}/`).catch(() => ''), {
      ...{ ...PATIENT, everyMs: 50, what: 'the page over https' },
    });
    t.diagnostic(`from the verify to a page that curl believes: ${Math.round(performance.now() - began)} ms`);
    assert.equal(page, 'the page\n');
    await until(async () => (await shown(id))?.detail === undefined, { ...PATIENT, what: 'nothing more to say' });
    const served = await until(
      async () => {
        const one = await shown(id);
        return one?.certificate_until ? one : undefined;
      },
      { ...PATIENT, what: 'it is said until when its certificate is valid' },
    );
    const { checked_at, next_check_at, certificate_until, ...plain } = served;
    const { detail: _none, checked_at: _never, next_check_at: _soon, ...asked } = { ...created, status: 'verified' };
    assert.deepEqual(plain, asked);
    const [now, ...times] = [
      Date.now(),
      ...[checked_at, next_check_at, certificate_until].map((at) => Date.parse(at ?? '')),
    ];
    assert.deepEqual(
      times.map((at) => at > now),
      [false, true, true],
      JSON.stringify(served),
    );
    assert.match(await list(), /^shop\.example\.org +verified +admin +\S+:8080 +until \d{4}-\d\d-\d\d\n$/m);
    const [one] = z
      .array(z.object({ domain: z.string(), certified_until: z.iso.datetime(), detail: z.literal('') }))
      .parse(JSON.parse(await command('--json')));
    assert.equal(one?.domain, 'shop.example.org');
    // Plain HTTP leads there; the certificate is the authority's, and for this name alone.
    const httpPort = new URL(platform.ready.urls.http).port;
    const plainly = await curl(
      `http://shop.example.org:${httpPort}/x?y`,
      '-o',
      '/dev/null',
      '-w',
      '%{http_code} %{redirect_url}',
    );
    assert.equal(plainly, `308 https://shop.example.org:${httpsPort()}/x?y`);
    await assert.rejects(curl(`https://ingress.example.org:${httpsPort()}/`), /unrecognized name|alert/i);
  });

  test('is in the dependency graph, between the gateway and its container', async () => {
    const url = `${platform.ready.urls.monitor}/api/graph/dependencies`;
    const isThere = async () => {
      const { status, json } = await request('GET', url, { token });
      assert.equal(status, 200);
      const { nodes, edges } = graphSchema.parse(json);
      const node = nodes.find(({ kind }) => kind === 'mapping');
      assert.equal(node?.status, 'verified');
      const has = (from: string, to: string, kind: string) =>
        edges.some((edge) => edge.from === from && edge.to === to && edge.kind === kind);
      return has('service:gateway', node.id, 'matches') && has(node.id, `container:${box}`, 'http');
    };
    // The monitor sees a new container at its next refresh.
    await until(isThere, { what: 'the mapping stands between the gateway and its container' });
  });

  test('without an address is told to get one, and a verify looks at once', async () => {
    const created = await map('late.example.org');
    await records('shop CNAME ingress', `_svc-verify.late TXT "${created.verify_token}"`);
    assert.deepEqual((await net('POST', `domain-mappings/${created.id}/verify`)).json, { status: 'verified' });
    await told(
      created.id,
      /^late\.example\.org has no address in DNS yet\. Once it is a CNAME of ingress\.example\.org, HTTPS follows/,
    );
    assert.match(await list(), /^late\.example\.org +verified .* -\n {2}late\.example\.org has no address/m);
    // As one that has waited long.
    await db?.run(
      `update certificates set next_try = now() + interval '10 minutes' where hostname = 'late.example.org'`,
    );
    await records('shop CNAME ingress', 'late CNAME ingress');
    assert.deepEqual((await net('POST', `domain-mappings/${created.id}/verify`)).json, { status: 'verified' });
    await until(() => curl(`https://late.example.org:${httpsPort()}/`).catch(() => ''), {
      ...{ ...PATIENT, what: 'the page over https' },
    });
  });

  test('that a squatter has mapped is taken by the record that the refusal names', async () => {
    for (const name of ['first.example.org', 'next.example.org']) await squat(name);
    const refused = await hostname('add', 'first.example.org', 'box', '--port', '8080', '--json');
    const { error, code, proof } = z
      .object({ error: z.string(), code: z.string(), proof: z.object({ name: z.string(), value: z.string() }) })
      .parse(JSON.parse(refused.stderr));
    assert.deepEqual([refused.code, error, code], [6, 'domain already in use', 'conflict']);
    const body = { container_id: box, domain: 'first.example.org', target_port: 8080 };
    const { status, headers } = await net('POST', 'domain-mappings', body);
    assert.equal(status, 409);
    assert.deepEqual(proof, {
      name: headers.get('x-troupe-proof-name'),
      value: headers.get('x-troupe-proof-value'),
    });
    // Through the gateway, as people call it, a person reads what to do; and waits for the other.
    const told = await hostname('add', 'first.example.org', 'box', '--port', '8080');
    assert.match(
      told.stderr,
      /already in use\.\nAnother account claims this hostname .*\n\n {2}TXT {4}_svc-verify\.first/,
    );
    assert.ok(told.stderr.includes(proof.value), told.stderr);
    const next = await net('POST', 'domain-mappings', { ...body, domain: 'next.example.org' });
    const waiting = hostname('add', 'next.example.org', 'box', '--port', '8080', '--wait');
    await records(
      ...[`_svc-verify.first TXT "${proof.value}"`, 'shop CNAME ingress', 'late CNAME ingress'],
      `_svc-verify.next TXT "${next.headers.get('x-troupe-proof-value')}"`,
    );
    const taken = await hostname('add', 'first.example.org', 'box', '--port', '8080');
    assert.deepEqual([taken.code, taken.stderr], [0, 'first.example.org leads to box, port 8080.\n']);
    assert.equal((await waiting).code, 0);
    assert.deepEqual(await squatted(), { 'first.example.org': 'failed', 'next.example.org': 'failed' });
    for (const name of ['first', 'next']) assert.equal((await hostname('rm', `${name}.example.org`)).code, 0);
  });

  test('in a connected zone is verified at once, whoever squats on it, and its record made', async () => {
    await squat('auto.example.org');
    provider?.zones.set('provider-token', [{ id: 'z1', name: 'example.org', status: 'active' }]);
    assert.equal((await net('POST', 'domains', { token: 'provider-token' })).status, 201);
    // The provider's record is in DNS already, as its own servers have it.
    await records('auto CNAME ingress');
    const created = await map('auto.example.org');
    assert.deepEqual([created.status, created.dns_automated], ['verified', true]);
    assert.equal((await squatted())['auto.example.org'], 'failed');
    assert.deepEqual(
      provider?.records.map(({ type, name, content, proxied }) => [type, name, content, proxied]),
      [['CNAME', 'auto.example.org', 'ingress.example.org', false]],
    );
    await until(() => curl(`https://auto.example.org:${httpsPort()}/`).catch(() => ''), {
      ...{ ...PATIENT, what: 'the page over https' },
    });
    assert.equal((await net('DELETE', `domain-mappings/${created.id}`)).status, 204);
    assert.deepEqual(provider?.records, []);
    await until(
      () =>
        curl(`https://auto.example.org:${httpsPort()}/`).then(
          () => false,
          (error) => /alert|unrecognized/i.test(String(error)),
        ),
      { ...PATIENT, what: 'it is not served any more' },
    );
  });

  test('that expired says why, and is taken up again by a verify', async () => {
    await records();
    const { json } = await net('GET', 'domains');
    for (const { id } of z.array(z.object({ id: z.string() })).parse(json.connections))
      await net('DELETE', `domains/${id}`);
    const created = await map('old.example.org');
    await db?.run(
      `update domain_mappings set pending_since = now() - interval '169 hours', next_check_at = now() where id = $1`,
      [created.id],
    );
    await until(async () => (await shown(created.id))?.status === 'failed', { ...PATIENT, what: 'it failed' });
    await told(
      created.id,
      /^not verified within 7 days: looked for the TXT record _svc-verify\.old\.example\.org with the value/,
    );
    // It holds nothing any more, for anybody.
    await squat('old.example.org');
    const held = await hostname('verify', 'old.example.org');
    assert.equal(held.code, 6);
    assert.ok(held.stderr.includes(created.verify_token), held.stderr);
    await db?.run(`delete from domain_mappings where container_id = $1`, [eve.box]);
    assert.match(await list(), /^old\.example\.org +failed .*\n {2}not verified within 7 days/m);
    const again = await net('POST', `domain-mappings/${created.id}/verify`);
    assert.deepEqual(
      [again.json.status, again.json.detail],
      [
        'pending',
        `it had failed and is looked at again from now on: make a TXT record _svc-verify.old.example.org with the value ${created.verify_token}`,
      ],
    );
  });

  test('is answered for while its container is stopped, and goes with it', async () => {
    const url = `${platform.ready.urls.compute}/compute/containers/${box}`;
    assert.equal((await request('POST', `${url}/stop`, { token })).status, 200);
    const page = `https://shop.example.org:${httpsPort()}/`;
    await until(async () => (await curl(page)) === 'The container is not running.\n', {
      ...{ ...PATIENT, what: 'it is said that the container is stopped' },
    });
    await request('DELETE', url, { token });
    await until(async () => ((await net('GET', 'domain-mappings')).json.domains as unknown[]).length === 0, {
      ...{ ...PATIENT, what: 'the mappings are gone' },
    });
    assert.equal(await list(), 'No hostname is mapped.\n');
  });
});
