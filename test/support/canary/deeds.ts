/** All that happens to containers with secrets, and to requests that carry some. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { tar } from '../../../lib/tar.ts';
import { importImage } from '../../../transports/engines/docker/image/base-image.ts';
import { appImageOf } from '../engine/app-image.ts';
import { docker } from '../engine/docker-client.ts';
import { tinyFiles } from '../engine/tiny-image.ts';
import type { CanaryWorld } from './world.ts';

export const CRASHING = 'troupe/canary-crash:1';

const created = z.object({ id: z.string() });

/** A container of ann. */
async function make(world: CanaryWorld, body: object, who: 'ann' | 'bob' = 'ann'): Promise<string> {
  const { json, text } = await world.compute('POST', '/containers', body, who);
  return created.parse(json, { error: () => text }).id;
}

/** Pushes an image of the trial's Docker as ann's. Returns its name there. */
async function push(world: CanaryWorld, image: string, name: string): Promise<string> {
  const file = join(world.folder, `${name}.tar`);
  await writeFile(file, await docker().call('GET', `/images/${image}/get`, { maxBytes: 1024 ** 3, timeoutMs: 60_000 }));
  const { code, stdout, stderr } = await world.command(['image', 'push', file, `${name}:1`, '--json']);
  assert.equal(code, 0, stderr);
  return z.object({ image: z.string() }).parse(JSON.parse(stdout)).image;
}

/** An image that is none of the platform's own: its program says a secret and fails. */
async function crashingImage(world: CanaryWorld): Promise<string> {
  const archive = tar(await tinyFiles());
  const program = 'echo "cannot log in with $CRASHING"; exit 3';
  const changes = [`CMD ["/bin/sh","-c",${JSON.stringify(program)}]`];
  await importImage(docker(), CRASHING, archive, changes, new AbortController().signal);
  return push(world, CRASHING, 'crash');
}

/** What is done, in an order in which each finds what it needs. Returns the containers that are left. */
export async function doAll(
  world: CanaryWorld,
  { isShort, say }: { readonly isShort: boolean; readonly say: (line: string) => void },
): Promise<string[]> {
  const ssh_key_ids = [await world.key()];
  const crashing = isShort ? undefined : await makeCrashing(world, ssh_key_ids);
  const others = await make(world, { name: 'others', ssh_key_ids: [await world.key('bob')] }, 'bob');
  await refusals(world, { ssh_key_ids, others });
  say('refused requests are sent');
  const box = await settings(world, ssh_key_ids);
  say('settings are changed, by all ways');
  await changes(world, box);
  say('changes failed, and were given up');
  const shop = await deployments(world, ssh_key_ids);
  say('an app was deployed, and rolled back');
  if (!isShort) await world.again('stop');
  await world.runs(box);
  await world.again('kill');
  await world.runs(shop);
  say('the platform was stopped and killed');
  if (crashing === undefined) return [box, shop];
  await world.until(crashing, 'it has failed', ({ status }) => status === 'failed');
  return [box, shop, crashing];
}

async function makeCrashing(world: CanaryWorld, ssh_key_ids: readonly unknown[]): Promise<string> {
  const secrets = { CRASHING: world.canaries.make('crash', true) };
  return make(world, { name: 'crashing', ssh_key_ids, image: await crashingImage(world), secrets });
}

/** A container with secrets of all ways by which there are some. */
async function settings(world: CanaryWorld, ssh_key_ids: readonly unknown[]): Promise<string> {
  const { canaries } = world;
  const box = await make(world, {
    ...{ name: 'box', ssh_key_ids },
    ...{ env: { SHOWN: canaries.make('a variable') }, secrets: { AT_CREATE: canaries.make('at create') } },
    health: { command: ['/bin/sh', '-c', 'test -n "$AT_CREATE"'], grace: 30 },
  });
  await world.until(box, 'it is healthy', ({ health }) => health === 'healthy');
  const typed = canaries.make('typed');
  assert.equal((await world.command(['env', 'secret', 'box', 'TYPED'], `${typed}\n`)).code, 0);
  await world.runs(box);
  const file = `OF_FILE=${canaries.make('of a file', true)}\n`;
  assert.equal((await world.command(['env', 'secret', 'box', '--file', '-'], file)).code, 0);
  await world.runs(box);
  const body = { secrets: { BY_PATCH: canaries.make('by PATCH'), TYPED: canaries.make('typed anew') } };
  assert.equal((await world.compute('PATCH', `/containers/${box}`, body)).status, 200);
  await world.runs(box);
  // The container is made anew, from an image that is made of it.
  const kept = { mount_paths: ['/root', '/data'], discard: true };
  assert.equal((await world.compute('PUT', `/containers/${box}/mounts`, kept)).status, 200);
  await world.runs(box);
  const guarded = { port: 443, target_port: 8080, tls: 'platform', access: 'password' };
  const rule = { ...guarded, password: canaries.make('password of a port') };
  assert.equal((await world.compute('POST', `/containers/${box}/ingress`, rule)).status, 200);
  return box;
}

/** Changes that are given up, while a check and a program say all that they know. */
async function changes(world: CanaryWorld, box: string): Promise<void> {
  await world.until(box, 'it is healthy', ({ health }) => health === 'healthy');
  const says = 'echo "no: $AT_CREATE"; echo "psql://app:$BY_PATCH@db and $OF_FILE" >&2; exit 1';
  const image = await push(world, await appImageOf('2'), 'second');
  const body = { image, health: { command: ['/bin/sh', '-c', says], grace: 2 } };
  const { status, text } = await world.compute('PATCH', `/containers/${box}`, body);
  assert.equal(status, 200, text);
  await world.until(box, 'the change is given up', ({ status_reason, health }) => {
    return /given up/.test(String(status_reason)) && health === 'healthy';
  });
  const unwell = { health: body.health, secrets: { BY_PATCH: world.canaries.make('with a check') } };
  await world.compute('PATCH', `/containers/${box}`, { health: null });
  assert.equal((await world.compute('PATCH', `/containers/${box}`, unwell)).status, 200);
  await world.until(box, 'it is unhealthy, or went back', ({ health, status_reason }) => {
    return health === 'unhealthy' || /given up/.test(String(status_reason));
  });
}

/** `troupe deploy` with a release command, one that fails, and the way back. */
async function deployments(world: CanaryWorld, ssh_key_ids: readonly unknown[]): Promise<string> {
  const { canaries } = world;
  const pem = `-----BEGIN PRIVATE KEY-----\n${canaries.make('left behind', true)}\n-----END PRIVATE KEY-----\n`;
  const folder = await world.app({ 'index.html': 'one', '.env': `LEFT=${canaries.make('.env')}\n`, 'a.key': pem });
  const serve = ['--start', 'exec busybox httpd -f -p $PORT -h .', '--build', '', '--grace', '20'];
  const shop = await make(world, { name: 'shop', ssh_key_ids });
  await world.runs(shop);
  const first = await world.command(['deploy', folder, ...serve]);
  assert.equal(first.code, 0, first.stderr);
  const secret = canaries.make('of the app');
  assert.equal((await world.command(['env', 'secret', 'shop', 'KEY'], `${secret}\n`)).code, 0);
  await world.runs(shop);
  await world.app({ 'index.html': 'two' });
  const second = await world.command(['deploy', folder, ...serve, '--release', 'test -n "$KEY"', '--note', 'second']);
  assert.equal(second.code, 0, second.stderr);
  assert.equal((await world.command(['deploy', folder, ...serve, '--release', 'exit 1'])).code, 1);
  assert.equal((await world.command(['deploy', folder, '--start', 'test -z "$KEY"', '--build', ''])).code, 1);
  assert.equal((await world.command(['rollback', 'shop'])).code, 0);
  return shop;
}

/** Requests that carry a secret and are refused; each reply is looked through. */
async function refusals(world: CanaryWorld, given: { ssh_key_ids: readonly unknown[]; others: string }): Promise<void> {
  const { canaries } = world;
  const one = canaries.make('in a refused request');
  const { ssh_key_ids, others } = given;
  const bodies: unknown[] = [
    ...[{ '1BAD': one }, { TROUPE_X: one }, { A: [one] }, { A: one.repeat(2000) }, one, [one], { A: `${one}\0` }].map(
      (secrets) => ({ secrets }),
    ),
    ...[{ env: { A: one }, secrets: { A: one } }, { memory_mb: one }, { image: one }, { instance_type: one }],
    ...[{ command: one }, { health: { command: one } }, { health: one }, { pull_policy: one }, { expires_at: one }],
    ...[{ storage_gb: one }, { network: one }, { working_dir: one }, { mount_paths: [one] }, { restart: one }],
  ];
  for (const body of bodies) {
    const whole = typeof body === 'object' ? { name: 'refused', ssh_key_ids, ...body } : body;
    const made = await world.compute('POST', '/containers', whole);
    assert.ok(made.status >= 400 && made.status < 500, `${made.status} of ${JSON.stringify(body)}`);
    for (const id of [others, 'aaaaaaaaaaaa']) await world.compute('PATCH', `/containers/${id}`, body);
  }
  const cut = `{"name": "x", "secrets": {"A": "${canaries.make('in broken JSON', true)}`;
  assert.equal((await world.compute('POST', '/containers', cut)).status, 400);
  await world.compute('GET', `/containers?token=${canaries.make('in a query', true)}`);
  await world.compute('GET', `/containers/${canaries.make('in a path', true)}`);
  const { auth, net } = world.urls;
  const body = { username: 'ann', password: canaries.make('a wrong password') };
  assert.equal((await world.ask(undefined, 'POST', `${auth}/api/login`, body)).status, 401);
  const change = { current_password: canaries.make('another wrong one'), new_password: canaries.make('a new one') };
  assert.ok((await world.ask('ann', 'PUT', `${auth}/api/settings/password`, change)).status >= 400);
  const domain = { token: canaries.make('of a DNS provider', true) };
  assert.ok((await world.ask('ann', 'POST', `${net}/api/domains`, domain)).status >= 400);
}
