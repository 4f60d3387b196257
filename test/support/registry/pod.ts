/**
 * The registry's pod of deploy/kubernetes as processes of this machine: the real docker-registry and the registry front,
 * with the configuration, arguments and variables of the manifest. Only folders, ports and the database are a test's.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { firstLine, spawnTroupe } from '../cluster/platform.ts';
import { manifestsOf } from '../kubernetes/manifests.ts';
import { findProgram } from '../require.ts';
import { type Cleanup, freePort } from '../temp.ts';
import { until } from '../until.ts';

const containerView = z.object({
  name: z.string(),
  args: z.array(z.string()),
  env: z
    .array(
      z.object({
        name: z.string(),
        value: z.string().optional(),
        valueFrom: z.object({ secretKeyRef: z.object({ name: z.string(), key: z.string() }).optional() }).optional(),
      }),
    )
    .default([]),
});
const workload = z.object({
  spec: z.object({ template: z.object({ spec: z.object({ containers: z.array(containerView) }) }) }),
});
const serviceView = z.object({
  metadata: z.object({ name: z.string() }),
  spec: z.object({ ports: z.array(z.object({ port: z.number() })) }),
});
const STORE = '/var/lib/registry';

type Container = z.output<typeof containerView>;

/** What a container gets of the secret of a bucket. */
function ofBucket({ env }: Container, secret: Readonly<Record<string, string>>): Record<string, string> {
  const found: Record<string, string> = {};
  for (const { name, valueFrom } of env) {
    const { name: from, key = '' } = valueFrom?.secretKeyRef ?? {};
    const value = from === 'troupe-registry-s3' ? secret[key] : undefined;
    if (value !== undefined) found[name] = value;
  }
  return found;
}

/** What the manifests say of the registry. */
export function registryManifests(components: readonly string[] = ['registry']) {
  const objects = manifestsOf('example', components);
  const find = (kind: string, name: string) =>
    objects.find((one) => one.kind === kind && one.metadata.name === name) ?? assert.fail(`${kind} ${name}`);
  const container = (deployment: string, name: string): Container =>
    workload.parse(find('Deployment', deployment)).spec.template.spec.containers.find((one) => one.name === name) ??
    assert.fail(`${deployment} ${name}`);
  return {
    config: z.object({ data: z.object({ 'config.yml': z.string() }) }).parse(find('ConfigMap', 'troupe-registry')).data[
      'config.yml'
    ],
    registry: container('troupe-registry', 'registry'),
    front: container('troupe-registry', 'front'),
    core: container('troupe-core', 'core'),
    service: serviceView.parse(find('Service', 'troupe-registry')),
  };
}

/** The variables of a container as a node fills them in. Fails for one that neither it nor `given` has. */
function variablesOf({ env }: Container, given: Readonly<Record<string, string>>): Record<string, string> {
  const all: Record<string, string> = { ...given };
  for (const { name, value } of env)
    if (value !== undefined) all[name] ??= value.replace(/\$\((\w+)\)/g, (_, of: string) => all[of] ?? '');
  return all;
}

interface PodOptions {
  readonly folder: string;
  readonly domain: string;
  /** With the rights of the front's role. */
  readonly databaseUrl: string;
  /** What the config map of the platform has besides. */
  readonly settings: Readonly<Record<string, string>>;
  /** What the secret of a bucket has; without it the images are in a folder. */
  readonly bucket?: Readonly<Record<string, string>>;
}

/** Starts it; all of it ends with `t`. */
export async function startRegistryPod(t: Cleanup, { folder, domain, databaseUrl, settings, bucket }: PodOptions) {
  const components = bucket === undefined ? ['registry'] : ['registry', 'registry-s3'];
  const { config, registry, front, core } = registryManifests(components);
  // As the guide makes them.
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')];
  await promisify(execFile)('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '36500'],
    ...['-subj', '/CN=Troupe registry tokens', '-keyout', key, '-out', certificate],
  ]);
  const [port, behind, store] = [await freePort(), await freePort(), join(folder, 'store')];
  const file = join(folder, 'config.yml');
  await writeFile(file, config);
  assert.match(config, /addr: 127\.0\.0\.1:5001/);
  const running: { registry: ChildProcess | undefined; front: ChildProcess | undefined } = {
    registry: undefined,
    front: undefined,
  };
  let log = '';
  const startRegistry = async () => {
    running.registry = spawn(
      findProgram('docker-registry') ?? 'docker-registry',
      registry.args.map((word) => (word.startsWith('/') ? file : word)),
      {
        env: {
          PATH: process.env.PATH,
          ...variablesOf(registry, { PLATFORM_DOMAIN: domain, REGISTRY_HTTP_SECRET: 'ab'.repeat(32) }),
          REGISTRY_HTTP_ADDR: `127.0.0.1:${behind}`,
          REGISTRY_AUTH_TOKEN_ROOTCERTBUNDLE: certificate,
          ...(bucket ?? { REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY: store }),
        },
        stdio: 'ignore',
      },
    );
    await until(() => isWell(`http://127.0.0.1:${behind}/`), { what: 'the registry serves' });
  };
  /** `seen`: the folder that it takes for that of the images. */
  const startFront = async (seen = store) => {
    const given = { PLATFORM_DOMAIN: domain, DATABASE_URL: databaseUrl, ...settings, ...ofBucket(front, bucket ?? {}) };
    const variables = variablesOf(front, given);
    const words = front.args.map((word) =>
      word
        .replace(/\$\((\w+)\)/g, (_, of: string) => variables[of] ?? '')
        .replace(STORE, seen)
        .replace(/^\/etc\/.*certificate\.pem$/, certificate),
    );
    const at = ['--addr', `127.0.0.1:${port}`, '--registry', `127.0.0.1:${behind}`];
    const child = spawnTroupe([...words, ...at], variables);
    running.front = child;
    child.stderr.on('data', (chunk: Buffer) => (log += chunk));
    assert.ok((await firstLine(child)) !== undefined, log);
    // As its probe asks.
    await until(() => isWell(`http://127.0.0.1:${port}/readyz`), { what: 'the front is ready' });
  };
  const stop = async (which: 'registry' | 'front', signal: NodeJS.Signals = 'SIGTERM') => {
    const child = running[which];
    running[which] = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  };
  t.after(async () => {
    await stop('front');
    await stop('registry');
  });
  await startRegistry();
  await startFront();
  return {
    /** Where gateways and core find it. */
    address: `127.0.0.1:${port}`,
    behind: { host: '127.0.0.1', port: behind },
    store,
    certificate,
    /** What core is told of it. */
    frontSetting: core.env.find(({ name }) => name === 'REGISTRY_FRONT')?.value ?? '',
    signingKey: (await readFile(key, 'utf8')) + (await readFile(certificate, 'utf8')),
    log: () => log,
    /** Resolves once the front may collect, which it does not for ten seconds after its start. */
    mayCollect: () =>
      until(async () => Number(/^troupe_registry_quiet_seconds (\S+)$/m.exec(await textAt(port))?.[1]) > 0, {
        what: 'the front may collect',
        timeoutMs: 60_000,
      }),
    startRegistry,
    startFront,
    stop,
  };
}

async function textAt(port: number): Promise<string> {
  return (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
}

/** Whether 200 is answered there. */
export async function isWell(url: string): Promise<boolean> {
  try {
    const response = await fetch(url);
    await response.body?.cancel();
    return response.status === 200;
  } catch {
    return false;
  }
}
