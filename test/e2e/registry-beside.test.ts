/**
 * The registry of deploy/kubernetes: the real docker-registry with the configuration and the variables of the manifest,
 * a platform that is told of it as core is, and a gateway in a process of its own, as they are in the cluster.
 */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { z } from 'zod';
import {
  addUsers,
  firstLine,
  logIn,
  type RunningPlatform,
  request,
  spawnTroupe,
  startPlatform,
  troupe,
} from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { proxyTo } from '../support/engine/outside.ts';
import { client } from '../support/engine/troupe-registry.ts';
import { manifestsOf } from '../support/kubernetes/manifests.ts';
import { findProgram, skipWithout } from '../support/require.ts';
import { freePort, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const DOMAIN = 'cloud.test';
const HOST = `registry.${DOMAIN}`;
const ADMIN_PASSWORD = 'the admin of this test';
const JWT_SECRET = 'the shared secret of this test, long enough';
const ANN: readonly [string, string] = ['ann', 'the password of ann'];
const BOB: readonly [string, string] = ['bob', 'the password of bob'];
const ports = z.object({ ports: z.object({ https: z.number() }) });

const variable = z.object({ name: z.string(), value: z.string().optional(), valueFrom: z.unknown().optional() });
const workload = z.object({
  spec: z.object({
    template: z.object({
      spec: z.object({
        containers: z.array(z.object({ args: z.array(z.string()), env: z.array(variable) })).length(1),
      }),
    }),
  }),
});

/** What the manifest says: the configuration, and the variables as a node fills them in. */
function manifest() {
  const objects = manifestsOf('example', ['registry']);
  const find = (kind: string, name: string) =>
    objects.find((one) => one.kind === kind && one.metadata.name === name) ?? assert.fail(`${kind} ${name}`);
  const config = z
    .object({ data: z.object({ 'config.yml': z.string() }) })
    .parse(find('ConfigMap', 'troupe-registry')).data;
  const [container] = workload.parse(find('Deployment', 'troupe-registry')).spec.template.spec.containers;
  const [core] = workload.parse(find('Deployment', 'troupe-core')).spec.template.spec.containers;
  assert.ok(container && core);
  const service = z
    .object({
      metadata: z.object({ name: z.string() }),
      spec: z.object({ ports: z.array(z.object({ port: z.number() })) }),
    })
    .parse(find('Service', 'troupe-registry'));
  return { config: config['config.yml'], container, core, service };
}

const skip = skipWithoutDocker() || skipWithout('docker', 'docker-registry', 'skopeo', 'openssl');

describe('the registry of deploy/kubernetes', { skip, timeout: 240_000 }, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let folder: string;
  let env: Record<string, string>;
  let platform: RunningPlatform;
  let trusted: string;
  let archive: string;
  /** Leads to the gateway that runs alone. */
  let proxy: string;

  before(async () => {
    folder = await tempDir(cleanup);
    const image = await tinyImage();
    const database = await testDatabase();
    cleanup.after(() => database.close());
    // As the guide makes them.
    const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')];
    await promisify(execFile)('openssl', [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '36500'],
      ...['-subj', '/CN=Troupe registry tokens', '-keyout', key, '-out', certificate],
    ]);
    const signingKey = (await readFile(key, 'utf8')) + (await readFile(certificate, 'utf8'));
    const port = await freePort();
    await startAsInPod(port, certificate);
    env = {
      ...{ DATABASE_URL: database.url, DEFAULT_IMAGE: image, ADMIN_PASSWORD, JWT_SECRET, REGISTRY: 'auto' },
      ...{ REGISTRY_ADDRESS: `127.0.0.1:${port}`, REGISTRY_SIGNING_KEY: signingKey },
      ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
    };
    const data = join(folder, 'data');
    platform = await startPlatform({ data, env, args: ['--domain', DOMAIN] });
    cleanup.after(() => platform.stop());
    await addUsers([ANN, BOB], data, env);
    trusted = join(folder, 'trusted');
    await mkdir(trusted);
    const roles = await database.serviceRoles();
    proxy = await proxyTo(cleanup, await gatewayAlone(roles.urlOf('gateway')));
    await copyFile(join(folder, 'gateway', 'ca.pem'), join(trusted, 'ca.crt'));
    archive = join(folder, 'image.tar');
    const saved = await client('docker', ['--host', process.env.DOCKER_HOST ?? '', 'save', '-o', archive, image]);
    assert.equal(saved.code, 0, saved.output);
  });

  after(async () => {
    for (const end of ends) await end();
  });

  /** Only folders and the port are this test's. */
  async function startAsInPod(port: number, certificate: string): Promise<void> {
    const { config, container } = manifest();
    const file = join(folder, 'config.yml');
    await writeFile(file, config);
    const given: Record<string, string> = { PLATFORM_DOMAIN: DOMAIN, REGISTRY_HTTP_SECRET: 'ab'.repeat(32) };
    for (const { name, value } of container.env)
      if (value !== undefined) given[name] = value.replace(/\$\((\w+)\)/g, (_, of: string) => given[of] ?? '');
    assert.deepEqual(
      container.env.filter(({ name }) => given[name] === undefined),
      [],
    );
    const child = spawn(
      findProgram('docker-registry') ?? 'docker-registry',
      container.args.map((word) => (word.startsWith('/') ? file : word)),
      {
        env: {
          ...{ PATH: process.env.PATH, ...given },
          ...{ REGISTRY_HTTP_ADDR: `127.0.0.1:${port}`, REGISTRY_AUTH_TOKEN_ROOTCERTBUNDLE: certificate },
          REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY: join(folder, 'store'),
        },
        stdio: 'ignore',
      },
    );
    cleanup.after(async () => {
      child.kill('SIGTERM');
      if (child.exitCode === null) await once(child, 'exit');
    });
    // The probes of the manifest ask for this path.
    const answers = () =>
      fetch(`http://127.0.0.1:${port}/`).then(
        ({ status }) => status === 200,
        () => false,
      );
    await until(answers, { what: 'the registry serves' });
  }

  async function gatewayAlone(url: string): Promise<number> {
    const free = ['http', 'https', 'ssh', 'net'].flatMap((name) => [`--${name}-port`, '0']);
    const own = ['--listen', '127.0.0.1', '--domain', DOMAIN, '--data', join(folder, 'gateway')];
    const { ENCRYPTION_KEY = '' } = env;
    const child = spawnTroupe(['gateway', '--json', ...own, ...free], {
      ...{ DATABASE_URL: url, JWT_SECRET, ENCRYPTION_KEY },
    });
    let log = '';
    child.stderr.on('data', (chunk: Buffer) => (log += chunk));
    const ended = once(child, 'close');
    cleanup.after(async () => {
      child.kill('SIGTERM');
      await ended;
    });
    const first = await firstLine(child);
    assert.ok(first !== undefined, log);
    return ports.parse(JSON.parse(first)).ports.https;
  }

  /** skopeo outside, as somebody. */
  const skopeo = (
    as: readonly [string, string] | undefined,
    command: 'copy' | 'inspect' | 'delete',
    ...args: string[]
  ) => {
    const side = command === 'copy' ? 'dest-' : '';
    const who = as === undefined ? [`--${side}no-creds`] : [`--${side}creds`, as.join(':')];
    const words = ['skopeo', '--insecure-policy', command, `--${side}cert-dir`, trusted, ...who, ...args];
    return client('env', [`HTTPS_PROXY=${proxy}`, 'NO_PROXY=', ...words]);
  };
  const push = (as: readonly [string, string] | undefined, name: string) =>
    skopeo(as, 'copy', `docker-archive:${archive}`, `docker://${HOST}/${name}`);

  test('the manifest leads core to the service of the registry', () => {
    const { core, service } = manifest();
    const address = core.env.find(({ name }) => name === 'REGISTRY_ADDRESS')?.value;
    assert.equal(address, `${service.metadata.name}:${service.spec.ports[0]?.port}`);
  });

  test('a user pushes and pulls through a gateway of its own, sees the image, and removes it; strangers may not', async () => {
    const pushed = await push(ANN, 'ann/app:1');
    assert.equal(pushed.code, 0, pushed.output);
    for (const stranger of [BOB, undefined]) {
      assert.notEqual((await push(stranger, 'ann/app:1')).code, 0);
      assert.notEqual((await skopeo(stranger, 'inspect', `docker://${HOST}/ann/app:1`)).code, 0);
    }
    const read = await skopeo(ANN, 'inspect', `docker://${HOST}/ann/app:1`);
    assert.equal(read.code, 0, read.output);
    const { auth, compute } = platform.ready.urls;
    const session = await logIn(auth, ...ANN);
    const facts = await request('GET', `${auth}/api/platform/facts`, { token: session });
    assert.equal(facts.json.registry_host, HOST);
    const { json } = await request('GET', `${compute}/compute/images`, { token: session });
    const images = z.array(z.object({ image: z.string() })).parse(json.list);
    assert.ok(images.some(({ image }) => image === `${HOST}/ann/app:1`));
    const removed = await skopeo(ANN, 'delete', `docker://${HOST}/ann/app:1`);
    assert.equal(removed.code, 0, removed.output);
    assert.notEqual((await skopeo(ANN, 'inspect', `docker://${HOST}/ann/app:1`)).code, 0);
  });

  test('a service account pushes by its token what its scopes name, and nothing else', async () => {
    const { auth } = platform.ready.urls;
    const session = await logIn(auth, ...ANN);
    const { json: who } = await request('GET', `${auth}/api/session`, { token: session });
    const scopes = { [`storage.${who.user_id}.registry.built`]: ['push', 'pull'] };
    const account = await request('POST', `${auth}/api/service-accounts`, {
      token: session,
      body: { name: 'ci', scopes },
    });
    assert.equal(account.status, 200, JSON.stringify(account.json));
    const url = `${auth}/api/service-accounts/${account.json.id}/tokens`;
    const made = await request('POST', url, { token: session, body: { name: 'ci' } });
    const as = ['ci', z.string().parse(made.json.token)] as const;
    const pushed = await push(as, 'ann/built:1');
    assert.equal(pushed.code, 0, pushed.output);
    assert.notEqual((await push(as, 'ann/other:1')).code, 0);
  });

  test('without the key, and beside a registry of another name, the start is refused with a sentence', async () => {
    const start = (more: Record<string, string>) =>
      troupe(['up', '--domain', DOMAIN, '--data', join(folder, 'refused')], { env: { ...env, ...more } });
    const without = await start({ REGISTRY_SIGNING_KEY: '' });
    assert.equal(without.code, 1);
    assert.match(without.stderr, /REGISTRY_SIGNING_KEY is not set: nobody could log in there/);
    const another = await start({ REGISTRY_HOST: 'registry.example.com' });
    assert.equal(another.code, 1);
    assert.match(another.stderr, /registry\.cloud\.test, and REGISTRY_HOST names registry\.example\.com/);
  });
});
