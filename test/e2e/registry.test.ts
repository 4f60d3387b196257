/** A real registry that takes the platform's tokens, used by the real Docker and skopeo. */

import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { SignJWT } from 'jose';
import { z } from 'zod';
import { parseRegistryKey, type RegistrySigner, registrySigner } from '../../actors/auth/registry/registry-key.ts';
import { registryTokens } from '../../actors/auth/registry/registry-tokens.ts';
import { runtimeEndpoints } from '../../proto/auth/actors.ts';
import { authEndpoints } from '../../proto/auth/endpoints.ts';
import type { RepositoryAccess } from '../../proto/auth/registry.ts';
import { REGISTRY_TOKEN_SECONDS } from '../../proto/auth/tokens.ts';
import { computeEndpoints } from '../../proto/compute/endpoints.ts';
import type { AnyEndpoint } from '../../proto/endpoint.ts';
import { UpgradeRefused, websocket } from '../support/clients/websocket.ts';
import { deleteAll, logIn, type RunningPlatform, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { DockerCli, type RunningRegistry, Skopeo, startRegistry } from '../support/engine/troupe-registry.ts';
import { skipWithout } from '../support/require.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { freePort, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const JWT_SECRET = 'the shared secret of this test, long enough';
const ADMIN_PASSWORD = 'the admin of this test';
const ANN: readonly [string, string] = ['ann', 'the password of ann'];
const BOB: readonly [string, string] = ['bob', 'the password of bob'];
const ISSUER = 'https://auth.registry.test';
const MANIFEST = 'application/vnd.docker.distribution.manifest.v2+json';
const manifestSchema = z.object({
  config: z.object({ digest: z.string() }),
  layers: z.array(z.object({ digest: z.string() })).min(1),
});

const skip = skipWithoutDocker() || skipWithout('docker', 'docker-registry', 'skopeo');

describe('a registry with the platform’s tokens', { skip, timeout: 900_000 }, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let platform: RunningPlatform;
  let registry: RunningRegistry;
  let signer: RegistrySigner;
  let image: string;
  let folder: string;
  let cli: (args: readonly string[], input?: string) => ReturnType<typeof troupe>;
  /** Tags that were made in Docker. */
  const tags = new Set<string>();

  before(async () => {
    folder = await tempDir(cleanup);
    image = await tinyImage();
    const database = await testDatabase();
    cleanup.after(() => database.close());
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const keyFile = join(folder, 'key.pem');
    await writeFile(keyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
    const port = await freePort();
    const env = {
      ...{ DATABASE_URL: database.url, DEFAULT_IMAGE: image, ADMIN_PASSWORD, JWT_SECRET },
      ...{ REGISTRY_HOST: `127.0.0.1:${port}`, REGISTRY_ISSUER: ISSUER, REGISTRY_SIGNING_KEY: keyFile },
    };
    const data = join(folder, 'data');
    cli = (args, input) => troupe([...args, '--data', data], { env, ...(input === undefined ? {} : { input }) });
    platform = await startPlatform({ data, env });
    cleanup.after(() => platform.stop());
    for (const [name, password] of [ANN, BOB]) assert.equal((await cli(['users', 'add', name], password)).code, 0);
    const certificate = await cli(['registry', 'certificate']);
    assert.equal(certificate.code, 0, certificate.stderr);
    registry = await startRegistry(cleanup, {
      ...{ port, service: env.REGISTRY_HOST, issuer: ISSUER, bundle: certificate.stdout },
      realm: `${platform.ready.urls.auth}/v2/token`,
    });
    signer = await registrySigner(database.db, parseRegistryKey(await readFile(keyFile, 'utf8')));
  });

  after(async () => {
    for (const tag of tags) await new DockerCli(folder).run(['image', 'rm', '--no-prune', tag]);
    for (const end of ends) await end();
  });

  /** Docker that remembers nothing yet. */
  const newDocker = async () => new DockerCli(await mkdtemp(join(folder, 'docker-')));
  const newSkopeo = async () => new Skopeo(join(await mkdtemp(join(folder, 'skopeo-')), 'auth.json'));

  /** Docker that is logged in. */
  async function dockerOf([username, password]: readonly [string, string]): Promise<DockerCli> {
    const docker = await newDocker();
    const { code, output } = await docker.login(registry.host, username, password);
    assert.equal(code, 0, output);
    assert.match(output, /Login Succeeded/);
    return docker;
  }

  async function skopeoOf([username, password]: readonly [string, string]): Promise<Skopeo> {
    const skopeo = await newSkopeo();
    const { code, output } = await skopeo.login(registry.host, username, password);
    assert.equal(code, 0, output);
    return skopeo;
  }

  /** Tags the tiny image for a repository and pushes it. */
  async function push(docker: DockerCli, repository: string) {
    const reference = `${registry.host}/${repository}`;
    tags.add(reference);
    assert.equal((await docker.run(['tag', image, reference])).code, 0);
    return docker.run(['push', reference]);
  }

  /** Pulls a repository that Docker does not have under this name. */
  async function pull(docker: DockerCli, repository: string) {
    const reference = `${registry.host}/${repository}`;
    await docker.run(['image', 'rm', '--no-prune', reference]);
    tags.add(reference);
    return docker.run(['pull', reference]);
  }

  /** A registry token, as a client gets one. */
  async function token(as: readonly [string, string] | undefined, ...scopes: string[]): Promise<string> {
    const query = new URLSearchParams({ service: registry.host });
    for (const scope of scopes) query.append('scope', scope);
    const authorization = `Basic ${Buffer.from(as?.join(':') ?? '').toString('base64')}`;
    const url = `${platform.ready.urls.auth}/v2/token?${query}`;
    const response = await fetch(url, as === undefined ? {} : { headers: { authorization } });
    assert.equal(response.status, 200);
    return z.object({ token: z.string() }).parse(await response.json()).token;
  }

  /** One request to the registry's API. */
  function call(method: string, path: string, bearer: string): Promise<Response> {
    return fetch(`${registry.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${bearer}`, accept: MANIFEST },
    });
  }

  /** A service account of ann's, with what it logs in with. */
  async function serviceAccount(name: string, repository: string, actions: string[]): Promise<[string, string]> {
    const { auth } = platform.ready.urls;
    const session = await logIn(auth, ...ANN);
    const { json: who } = await request('GET', `${auth}/api/session`, { token: session });
    const scopes = { [`storage.${who.user_id}.registry.${repository}`]: actions };
    const account = await request('POST', `${auth}/api/service-accounts`, { token: session, body: { name, scopes } });
    assert.equal(account.status, 200, JSON.stringify(account.json));
    const url = `${auth}/api/service-accounts/${account.json.id}/tokens`;
    const made = await request('POST', url, { token: session, body: { name: 'ci' } });
    return [name, z.string().parse(made.json.token)];
  }

  test('Docker logs in with a password, not with a wrong one', async () => {
    await dockerOf(ANN);
    const { code, output } = await (await newDocker()).login(registry.host, 'ann', 'wrong password');
    assert.notEqual(code, 0);
    assert.match(output, /401|unauthorized/i);
  });

  test('a user pushes to and pulls from their own, and not to another’s', async () => {
    const [ann, bob] = [await dockerOf(ANN), await dockerOf(BOB)];
    const pushed = await push(ann, 'ann/app:1');
    assert.equal(pushed.code, 0, pushed.output);
    const pulled = await pull(ann, 'ann/app:1');
    assert.equal(pulled.code, 0, pulled.output);
    assert.match(pulled.output, /Digest: sha256:/);

    const foreign = await push(bob, 'ann/app:2');
    assert.notEqual(foreign.code, 0);
    assert.match(foreign.output, /denied|unauthorized/);
    assert.notEqual((await pull(bob, 'ann/app:1')).code, 0);
    assert.notEqual((await pull(await newDocker(), 'ann/app:1')).code, 0);
    const library = await push(ann, 'library/app:1');
    assert.match(library.output, /denied|unauthorized/);
  });

  test('anybody pulls what was made public, until it is private again', async () => {
    const ann = await dockerOf(ANN);
    assert.equal((await push(ann, 'ann/open:1')).code, 0);
    const anybody = await newDocker();
    assert.notEqual((await pull(anybody, 'ann/open:1')).code, 0);
    assert.equal((await cli(['registry', 'visibility', 'ann/open', 'public'])).code, 0);
    const pulled = await pull(anybody, 'ann/open:1');
    assert.equal(pulled.code, 0, pulled.output);
    assert.notEqual((await push(anybody, 'ann/open:2')).code, 0);
    assert.notEqual((await push(await dockerOf(BOB), 'ann/open:2')).code, 0);
    assert.equal((await cli(['registry', 'visibility', 'ann/open', 'private'])).code, 0);
    assert.notEqual((await pull(anybody, 'ann/open:1')).code, 0);
  });

  test('library is pushed by the administrator and pulled by anybody', async () => {
    const admin = await dockerOf(['admin', ADMIN_PASSWORD]);
    const pushed = await push(admin, 'library/tiny:1');
    assert.equal(pushed.code, 0, pushed.output);
    const pulled = await pull(await newDocker(), 'library/tiny:1');
    assert.equal(pulled.code, 0, pulled.output);
    assert.notEqual((await push(admin, 'ann/app:3')).code, 0);
  });

  test('a service account works in the one repository of its scope', async () => {
    const robot = await dockerOf(await serviceAccount('robot', 'built', ['push', 'pull']));
    const pushed = await push(robot, 'ann/built:1');
    assert.equal(pushed.code, 0, pushed.output);
    assert.equal((await pull(robot, 'ann/built:1')).code, 0);
    for (const near of ['ann/built2:1', 'ann/app:4', 'ann/built/x:1', 'bob/built:1']) {
      const refused = await push(robot, near);
      assert.notEqual(refused.code, 0, near);
      assert.match(refused.output, /denied|unauthorized/, near);
    }
  });

  test('a container runs from its owner’s private repository, pulled with the owner’s rights', async () => {
    const docker = await dockerOf(ANN);
    assert.equal((await push(docker, 'ann/service:1')).code, 0);
    await docker.run(['image', 'rm', '--no-prune', `${registry.host}/ann/service:1`]);
    const { auth, compute } = platform.ready.urls;
    const session = await logIn(auth, ...ANN);
    const key = await request('POST', `${compute}/compute/ssh-keys`, {
      token: session,
      body: { name: 'laptop', public_key: publicKey() },
    });
    const create = (name: string) =>
      request('POST', `${compute}/compute/containers`, {
        token: session,
        body: { name: 'own', ssh_key_ids: [key.json.id], image: `${registry.host}/${name}` },
      });
    const made = await create('ann/service:1');
    assert.equal(made.status, 200, JSON.stringify(made.json));
    const statusOf = async (id: unknown) =>
      (await request('GET', `${compute}/compute/containers/${id}`, { token: session })).json;
    const settled = await until(
      async () => {
        const view = await statusOf(made.json.id);
        return view.status === 'running' || view.status === 'failed' ? view : undefined;
      },
      { what: 'it runs', timeoutMs: 60_000 },
    );
    assert.equal(settled.status, 'running', JSON.stringify(settled));
    const images = async () => {
      const { json } = await request('GET', `${compute}/compute/images`, { token: session });
      return z.array(z.object({ image: z.string(), source: z.string() })).parse(json.list);
    };
    assert.ok((await images()).some(({ image, source }) => image.endsWith('/ann/service:1') && source === 'registry'));
    // Another's is there once it is public, and gone when it is not.
    const bobs = await dockerOf(BOB);
    assert.equal((await push(bobs, 'bob/shared:1')).code, 0);
    assert.equal((await create('bob/shared:1')).status, 400);
    assert.ok(!(await images()).some(({ image }) => image.includes('/bob/')));
    assert.equal((await cli(['registry', 'visibility', 'bob/shared', 'public'])).code, 0);
    assert.ok((await images()).some(({ image }) => image.endsWith('/bob/shared:1')));
    assert.equal((await create('bob/shared:1')).status, 200);
    assert.equal((await cli(['registry', 'visibility', 'bob/shared', 'private'])).code, 0);
    await deleteAll(compute, session);
  });

  test('skopeo does the same', async () => {
    const docker = ['--src-daemon-host', process.env.DOCKER_HOST ?? ''];
    const at = (name: string) => `docker://${registry.host}/${name}`;
    const [ann, bob, anybody] = [await skopeoOf(ANN), await skopeoOf(BOB), await newSkopeo()];
    const pushed = await ann.copy(`docker-daemon:${image}`, at('ann/copied:1'), docker);
    assert.equal(pushed.code, 0, pushed.output);
    const pulled = await ann.copy(at('ann/copied:1'), `dir:${join(folder, 'pulled')}`);
    assert.equal(pulled.code, 0, pulled.output);
    assert.ok((await readdir(join(folder, 'pulled'))).includes('manifest.json'));
    const within = await ann.copy(at('ann/copied:1'), at('ann/copied-again:1'));
    assert.equal(within.code, 0, within.output);

    for (const stranger of [bob, anybody]) {
      assert.notEqual((await stranger.inspect(at('ann/copied:1'))).code, 0);
      assert.notEqual((await stranger.copy(`docker-daemon:${image}`, at('ann/copied:2'), docker)).code, 0);
    }
    assert.equal((await anybody.inspect(at('library/tiny:1'))).code, 0);
    const robot = await skopeoOf(await serviceAccount('copier', 'ann/copied', ['push', 'pull']));
    const robotPush = await robot.copy(at('ann/copied:1'), at('ann/copied:3'));
    assert.equal(robotPush.code, 0, robotPush.output);
    assert.notEqual((await robot.copy(at('ann/copied:1'), at('ann/other:1'))).code, 0);
    assert.notEqual((await robot.delete(at('ann/copied:1'))).code, 0);

    const removed = await ann.delete(at('ann/copied:1'));
    assert.equal(removed.code, 0, removed.output);
    assert.notEqual((await ann.inspect(at('ann/copied:1'))).code, 0);
  });

  test('a token for one action does no other; deletion takes one for it', async () => {
    assert.equal((await push(await dockerOf(ANN), 'ann/gone:1')).code, 0);
    const reading = await token(ANN, 'repository:ann/gone:pull');
    const manifest = await call('GET', '/v2/ann/gone/manifests/1', reading);
    assert.equal(manifest.status, 200);
    const path = `/v2/ann/gone/manifests/${manifest.headers.get('docker-content-digest')}`;
    assert.equal((await call('POST', '/v2/ann/gone/blobs/uploads/', reading)).status, 401);
    assert.equal((await call('DELETE', path, reading)).status, 401);
    assert.equal((await call('GET', '/v2/_catalog', reading)).status, 401);
    assert.equal((await call('DELETE', path, await token(ANN, 'repository:ann/gone:pull,push'))).status, 401);
    assert.equal((await call('DELETE', path, await token(BOB, 'repository:ann/gone:*'))).status, 401);
    const deleting = await token(ANN, 'repository:ann/gone:delete');
    assert.equal((await call('GET', '/v2/ann/gone/manifests/1', deleting)).status, 401);
    assert.equal((await call('DELETE', path, deleting)).status, 202);
    assert.equal((await call('GET', '/v2/ann/gone/manifests/1', reading)).status, 404);
    const admin = await token(['admin', ADMIN_PASSWORD], 'registry:catalog:*', 'repository:library/x:*');
    assert.equal((await call('GET', '/v2/_catalog', admin)).status, 401, 'nobody is shown all names');
  });

  test('a blob is mounted from one’s own repository, not from a stranger’s', async () => {
    assert.equal((await push(await dockerOf(BOB), 'bob/secret:1')).code, 0);
    const bobs = await token(BOB, 'repository:bob/secret:pull', 'repository:bob/next:pull,push');
    const manifest = await call('GET', '/v2/bob/secret/manifests/1', bobs);
    const { config } = manifestSchema.parse(await manifest.json());
    const mount = (to: string) => `/v2/${to}/blobs/uploads/?mount=${config.digest}&from=bob/secret`;
    assert.equal((await call('POST', mount('bob/next'), bobs)).status, 201);

    const anns = await token(ANN, 'repository:bob/secret:pull', 'repository:ann/thief:pull,push');
    assert.equal((await call('POST', mount('ann/thief'), anns)).status, 401);
    assert.equal((await call('GET', `/v2/ann/thief/blobs/${config.digest}`, anns)).status, 404);
    assert.equal((await call('GET', `/v2/bob/secret/blobs/${config.digest}`, anns)).status, 401);
  });

  test('the registry takes no token but the platform’s for it', async () => {
    const clock = { now: Date.now };
    const access: RepositoryAccess[] = [{ type: 'repository', name: 'ann/app', actions: ['pull'] }];
    const good = { subject: 'ann', service: registry.host, access };
    const common = { clock, issuer: ISSUER, jwtSecret: JWT_SECRET, signer };
    const status = async (bearer: string) => (await call('GET', '/v2/ann/app/tags/list', bearer)).status;
    const of = async (options: Parameters<typeof registryTokens>[0], grant = good) =>
      (await registryTokens(options)(grant)).token;
    assert.equal(await status(await of(common)), 200);

    const other = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
    const past = { now: () => Date.now() - (REGISTRY_TOKEN_SECONDS + 120) * 1000 };
    const future = { now: () => Date.now() + 120_000 };
    const [header = '', claims = '', signature = ''] = (await of(common)).split('.');
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const decoded: object = JSON.parse(Buffer.from(claims, 'base64url').toString());
    const ecdsa = { alg: 'ES256', typ: 'JWT' };
    const { x = '', y = '' } = other.export({ format: 'jwk' });
    const embedded = { ...ecdsa, jwk: { kty: 'EC', crv: 'P-256', x, y } };
    const refused: Record<string, string> = {
      'HS256 with the shared secret': await of({ ...common, signer: undefined }),
      'HS256 with the certificate': await of({ ...common, signer: undefined, jwtSecret: signer.chain[0] ?? '' }),
      'no algorithm': `${encode({ alg: 'none', typ: 'JWT' })}.${claims}.`,
      'no algorithm, with the certificate': `${encode({ alg: 'none', typ: 'JWT', x5c: signer.chain })}.${claims}.`,
      'another audience': await of(common, { ...good, service: 'registry.elsewhere.test' }),
      'another issuer': await of({ ...common, issuer: 'troupe' }),
      'another key with our certificate': await of({ ...common, signer: { ...signer, privateKey: other } }),
      'another key in its header': await new SignJWT({ ...decoded }).setProtectedHeader(embedded).sign(other),
      'a token that is over': await of({ ...common, clock: past }),
      'a token that is not yet': await of({ ...common, clock: future }),
      'other claims under our signature': `${header}.${encode({ ...decoded, sub: 'admin' })}.${signature}`,
      'no signature': `${header}.${claims}.`,
      'a session': await logIn(platform.ready.urls.auth, ...ANN),
    };
    for (const [what, bearer] of Object.entries(refused)) assert.equal(await status(bearer), 401, what);
  });

  test('a registry token opens nothing of the platform', async () => {
    const { auth, compute } = platform.ready.urls;
    const signed = await token(['admin', ADMIN_PASSWORD], 'repository:admin/app:*');
    const shared = await registryTokens({
      ...{ clock: { now: Date.now }, issuer: ISSUER, signer: undefined, jwtSecret: JWT_SECRET },
    })({ subject: 'admin', service: registry.host, access: [] });
    const all: readonly AnyEndpoint[] = [...authEndpoints, ...runtimeEndpoints, ...computeEndpoints];
    const closed = all.filter(({ access }) => access !== 'none');
    assert.ok(closed.length > 20);
    for (const bearer of [signed, shared.token, `svc_${shared.token}`]) {
      for (const { method, path, service, socket } of closed) {
        const url = `${service === 'auth' ? auth : compute}${path.replaceAll(/\{.*?\}/g, 'aaaaaaaaaaaa')}`;
        if (socket) {
          const headers = { authorization: `Bearer ${bearer}` };
          await assert.rejects(websocket(cleanup, url.replace('http', 'ws'), { headers }), (error) => {
            assert.ok(error instanceof UpgradeRefused, String(error));
            assert.equal(error.status, 401, path);
            return true;
          });
        } else {
          const body = method === 'GET' || method === 'DELETE' ? {} : { body: {} };
          assert.equal((await request(method, url, { token: bearer, ...body })).status, 401, `${method} ${path}`);
        }
      }
    }
  });

  test('nothing secret is in the log', async () => {
    assert.doesNotMatch(platform.log(), /"level":"error"/);
    for (const [, password] of [ANN, BOB, ['admin', ADMIN_PASSWORD]])
      assert.ok(!platform.log().includes(password ?? '?'));
    assert.doesNotMatch(platform.log(), /eyJ[A-Za-z0-9_-]{20}/);
  });
});
