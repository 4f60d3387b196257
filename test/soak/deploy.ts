/**
 * Does the platform run from its image and its manifests? `npm run soak -- deploy IMAGE`: IMAGE was built with deploy/Dockerfile in the Docker
 * Engine of DOCKER_HOST. All of deploy/kubernetes/example is applied to a real cluster of one node, with this image and with PostgreSQL, NATS and
 * secrets of the test; then a person logs in through the gateway there, and runs a container to be inside by SSH.
 */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { request as httpsRequest } from 'node:https';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { openDb } from '../../storage/db.ts';
import { startNats } from '../support/bus/nats-server.ts';
import { startTestServer } from '../support/database/database.ts';
import { buildTinyImage } from '../support/engine/tiny-image.ts';
import { type Cluster, startCluster } from '../support/kubernetes/cluster.ts';
import { applyAll, asServed, type Manifest, manifestsOf } from '../support/kubernetes/manifests.ts';
import { provideVolumes, testStorageClass } from '../support/kubernetes/volumes.ts';
import { silentLog } from '../support/log.ts';
import { findProgram } from '../support/require.ts';
import { type Cleanup, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const [image] = process.argv.slice(2);
/** In the API server's own certificate. Pods reach the machine at it. */
const machine = '10.200.0.1';
const domain = 'cloud.example.com';
const password = 'the administrator of this trial';
const patience = { timeoutMs: 300_000, everyMs: 500 };
const ends: (() => unknown)[] = [];
const t: Cleanup = { after: (end) => void ends.unshift(end) };
const say = (line: string): void => void process.stdout.write(`${line}\n`);

const pods = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ name: z.string(), labels: z.record(z.string(), z.string()).default({}) }),
      status: z.object({
        podIP: z.string().default(''),
        conditions: z.array(z.object({ type: z.string(), status: z.string() })).default([]),
      }),
    }),
  ),
});

/** A port of the machine where pods reach what listens at `to`. */
async function offer(to: { readonly port: number } | { readonly path: string }): Promise<number> {
  const server = createServer((from) => {
    const onward = 'path' in to ? connect(to.path) : connect(to.port, '127.0.0.1');
    for (const [one, other] of [
      [from, onward],
      [onward, from],
    ] as const)
      one.on('error', () => other.destroy()).on('close', () => other.destroy());
    from.pipe(onward).pipe(from);
  });
  server.listen(0, machine);
  await once(server, 'listening');
  t.after(() => {
    server.close();
  });
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** `docker save` of one engine into `docker load` of another. */
async function copyImage(reference: string, socket: string): Promise<void> {
  const docker = findProgram('docker') ?? 'docker';
  const save = spawn(docker, ['save', reference], { stdio: ['ignore', 'pipe', 'inherit'] });
  const load = spawn(docker, ['-H', `unix://${socket}`, 'load'], { stdio: ['pipe', 'ignore', 'inherit'] });
  save.stdout.pipe(load.stdin);
  assert.deepEqual(await Promise.all([once(save, 'exit'), once(load, 'exit')]), [
    [0, null],
    [0, null],
  ]);
}

/** The manifests of the example with what is this trial's own. */
function manifests(reference: string, config: Record<string, string>): Manifest[] {
  return manifestsOf('example').map((one) => {
    const text = JSON.stringify(one).replaceAll('"image":"troupe"', `"image":${JSON.stringify(reference)}`);
    const parsed: Manifest = JSON.parse(text);
    if (one.kind === 'ConfigMap')
      return { ...parsed, data: { ...z.record(z.string(), z.string()).parse(one.data), ...config } };
    return parsed;
  });
}

function secret(name: string, stringData: Record<string, string>): Manifest {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: 'troupe' }, stringData };
}

/** One request to a gateway, as a host of the platform. */
function ask(gateway: string, host: string, method: string, path: string, token?: string, body?: unknown) {
  return new Promise<{ status: number; json: unknown }>((resolve, reject) => {
    const sent = httpsRequest(
      {
        ...{ host: gateway, port: 8443, servername: host, rejectUnauthorized: false, agent: false, method, path },
        headers: {
          host,
          'content-type': 'application/json',
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        },
      },
      (response) => {
        const parts: Buffer[] = [];
        response.on('data', (part: Buffer) => parts.push(part));
        response.on('error', reject);
        response.on('end', () => {
          const text = Buffer.concat(parts).toString();
          try {
            resolve({ status: response.statusCode ?? 0, json: JSON.parse(text) });
          } catch {
            resolve({ status: response.statusCode ?? 0, json: text });
          }
        });
      },
    );
    sent.on('error', reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** The platform's pods by the name of their workload, once all of them are ready. */
async function readyPods(cluster: Cluster, workloads: readonly string[]): Promise<Map<string, string>> {
  let seen = '';
  return until(
    async () => {
      const { items } = pods.parse((await cluster.call('GET', '/api/v1/namespaces/troupe/pods')).json);
      const ready = items.filter(({ status }) =>
        status.conditions.some((one) => one.type === 'Ready' && one.status === 'True'),
      );
      const names = ready.map(({ metadata }) => metadata.name).join(', ');
      if (names !== seen) say(`ready: ${names}`);
      seen = names;
      const found = new Map(
        ready.map(({ metadata, status }) => [metadata.labels['app.kubernetes.io/name'] ?? '', status.podIP]),
      );
      return workloads.every((name) => found.has(name)) ? found : undefined;
    },
    { ...patience, what: 'all pods of the platform are ready' },
  );
}

/** What went wrong inside. */
async function lastLines(cluster: Cluster): Promise<string> {
  const { json } = await cluster.call('GET', '/api/v1/namespaces/troupe/pods');
  const said: string[] = [];
  for (const { metadata } of pods.parse(json).items) {
    const log = await cluster.call('GET', `/api/v1/namespaces/troupe/pods/${metadata.name}/log?tailLines=15`);
    said.push(`--- ${metadata.name}\n${typeof log.json === 'string' ? log.json : JSON.stringify(log.json)}`);
  }
  return `${said.join('\n')}\n${JSON.stringify(json).slice(0, 3000)}`;
}

async function trial(reference: string): Promise<void> {
  const cluster = await startCluster({ tellsAuthority: true });
  t.after(() => cluster.stop());
  const { docker } = cluster;
  assert.ok(docker);
  const volumes = provideVolumes(cluster);
  t.after(() => volumes.close());
  const base = await buildTinyImage();
  await base.build(docker.client, () => {}, new AbortController().signal);
  await copyImage(reference, docker.socket);
  say('the node has the image');

  const bridge = await readFile(join(cluster.folder, 'bridge'), 'utf8');
  await run('ip', ['addr', 'add', `${machine}/32`, 'dev', bridge]);
  // Other Docker Engines of this machine may forbid what is between pods. It goes with the cluster.
  await run('iptables', ['-I', 'FORWARD', '-i', bridge, '-o', bridge, '-j', 'ACCEPT']);
  const database = await startTestServer();
  t.after(() => database.stop());
  // As the guide has it done: they get their rights before core starts.
  const owner = openDb(
    { socketDir: database.socketDir, user: 'troupe', database: 'postgres' },
    { log: silentLog, name: 'test', max: 1 },
  );
  const alone = ['gateway', 'monitor', 'notify'];
  await owner.script(alone.map((service) => `create role troupe_${service} login;`).join('\n'));
  await owner.close();
  const nats = await startNats(t);
  const folder = await tempDir(t);
  const [key, certificate, keyFile] = ['tls.key', 'tls.crt', 'id'].map((name) => join(folder, name));
  assert.ok(key && certificate && keyFile);
  await run('openssl', [
    ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', `/CN=${domain}`, '-keyout', key],
    ...['-out', certificate, '-addext', `subjectAltName=DNS:${domain},DNS:*.${domain},DNS:*.compute.${domain}`],
  ]);
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', keyFile]);
  const postgres = await offer({ path: join(database.socketDir, '.s.PGSQL.5432') });
  const api = await offer({ port: Number(new URL(cluster.server).port) });
  const broker = `nats://${machine}:${await offer({ port: nats.port })}`;
  const objects = manifests(reference, {
    ...{ PLATFORM_DOMAIN: domain, DEFAULT_IMAGE: base.reference, KUBERNETES_STORAGE_CLASS: testStorageClass },
    // This cluster has nothing that leads to its services.
    ...{ KUBERNETES_SERVICE_HOST: machine, KUBERNETES_SERVICE_PORT: String(api), KUBERNETES_ARCHITECTURE: 'any' },
  });
  const first = objects.filter(({ kind }) => kind === 'Namespace');
  await applyAll(cluster, [
    ...first,
    ...['core', 'gateway', 'monitor', 'notify'].map((service) =>
      secret(`troupe-${service}`, {
        DATABASE_URL: `postgres://${service === 'core' ? 'troupe' : `troupe_${service}`}@${machine}:${postgres}/postgres`,
        NATS_URL: broker,
        NATS_INSECURE: 'allow',
        JWT_SECRET: 'the shared secret of this trial, long enough',
      }),
    ),
    secret('troupe-keys', { ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64') }),
    secret('troupe-admin', { password }),
    secret('troupe-tls', {
      'tls.crt': await readFile(certificate, 'utf8'),
      'tls.key': await readFile(key, 'utf8'),
    }),
    ...(await asServed(
      cluster,
      objects.filter((one) => !first.includes(one)),
    )),
  ]);
  say('all manifests are applied');
  const workloads = objects
    .filter(({ kind }) => /^(Deployment|DaemonSet)$/.test(kind))
    .map(({ metadata }) => metadata.name);
  try {
    const gateway = (await readyPods(cluster, workloads)).get('troupe-gateway') ?? assert.fail('there is no gateway');
    await useIt(gateway, keyFile);
  } catch (error) {
    say(await lastLines(cluster));
    throw error;
  }
}

/** The main path, through the gateway. */
async function useIt(gateway: string, keyFile: string): Promise<void> {
  const login = await until(
    async () => {
      const body = { username: 'admin', password };
      const reply = await ask(gateway, `auth.${domain}`, 'POST', '/api/login', undefined, body).catch(() => undefined);
      return reply?.status === 200 ? reply : undefined;
    },
    { ...patience, what: 'the administrator can log in' },
  );
  const { token } = z.object({ token: z.string() }).parse(login.json);
  const compute = (method: string, path: string, body?: unknown) =>
    ask(gateway, `compute.${domain}`, method, `/compute${path}`, token, body);
  const publicKey = await readFile(`${keyFile}.pub`, 'utf8');
  const key = await compute('POST', '/ssh-keys', { name: 'laptop', public_key: publicKey });
  assert.equal(key.status, 200, JSON.stringify(key));
  const { id: keyId } = z.object({ id: z.number() }).parse(key.json);
  const made = await compute('POST', '/containers', { name: 'first', ssh_key_ids: [keyId], ssh_enabled: true });
  assert.equal(made.status, 200, JSON.stringify(made.json));
  const { id } = z.object({ id: z.string() }).parse(made.json);
  const view = z.object({ status: z.string() });
  await until(async () => view.parse((await compute('GET', `/containers/${id}`)).json).status === 'running', {
    ...{ ...patience, what: 'the container runs' },
  });
  say('a container runs');
  const options = ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'BatchMode=yes', 'LogLevel=ERROR'];
  const { stdout } = await run('ssh', [
    ...['-F', 'none', '-i', keyFile, '-p', '2222', ...options.flatMap((one) => ['-o', one])],
    ...[`${id}@${gateway}`, 'echo inside'],
  ]);
  assert.equal(stdout, 'inside\n');
  say('SSH through the gateway leads inside');
  assert.equal((await compute('DELETE', `/containers/${id}`)).status, 200);
  await until(async () => (await compute('GET', `/containers/${id}`)).status === 404, {
    ...{ ...patience, what: 'the container is gone' },
  });
}

if (image === undefined) {
  say('Which image? Build one: docker build -f deploy/Dockerfile -t troupe:trial .');
  process.exitCode = 1;
} else {
  try {
    await trial(image);
    say('ok');
  } catch (error) {
    say(error instanceof Error ? (error.stack ?? error.message) : String(error));
    process.exitCode = 1;
  } finally {
    for (const end of ends) await end();
  }
}
