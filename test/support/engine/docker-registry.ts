import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { isReply, jsonLines } from '../../../transports/engines/common/calls.ts';
import type { DockerClient } from '../../../transports/engines/docker/api/client.ts';
import { authHeader } from '../../../transports/engines/docker/image/images.ts';
import { freePort } from '../temp.ts';
import { eventually } from './eventually.ts';

const program = '/usr/bin/docker-registry';

/** Whether a registry can be run here. */
export const registryInstalled = existsSync(program);

/** The one user of the registry, and what its htpasswd file says of her (bcrypt). */
export const alice = { username: 'alice', password: 'correct horse' };
const htpasswd = 'alice:$2b$04$lADq8skSAewOuqUE5PEU2e8jFprTFQvxjfNHZm1XisTCVw3CGBX/S\n';

const testLabel = 'troupe.test';
const created = z.object({ Id: z.string() });
const pushed = z.object({ error: z.string().optional() });

/** A registry on a free loopback port, its data in a temporary folder; it asks for alice's password unless it is `open`. */
export async function startRegistry({ open = false } = {}): Promise<{ host: string; close(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'troupe-registry-'));
  const host = `127.0.0.1:${await freePort()}`;
  await writeFile(join(folder, 'htpasswd'), htpasswd);
  const config = {
    version: 0.1,
    log: { level: 'error' },
    storage: { filesystem: { rootdirectory: join(folder, 'data') } },
    http: { addr: host },
    ...(open ? {} : { auth: { htpasswd: { realm: 'test', path: join(folder, 'htpasswd') } } }),
  };
  await writeFile(join(folder, 'config.yml'), JSON.stringify(config));
  const child = spawn(program, ['serve', join(folder, 'config.yml')], { stdio: 'ignore' });
  const ended = new Promise((resolve) => child.once('close', resolve));
  child.once('error', () => undefined);
  const close = async (): Promise<void> => {
    child.kill();
    await ended;
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await eventually(async () => void (await fetch(`http://${host}/v2/`)).body?.cancel());
  } catch (error) {
    await close();
    throw error;
  }
  return { host, close };
}

/** Pushes `source`, with a label that makes it another image each time, as `image`, and forgets it here. `owner` labels it. */
export async function publish(client: DockerClient, source: string, image: string, owner: string): Promise<void> {
  const [, repository = '', tag = ''] = /^(.*):([^:]*)$/.exec(image) ?? [];
  const { Id: container } = await client.json('POST', '/containers/create', created, { body: { Image: source } });
  const before = await idOf(client, image);
  const changes = `LABEL ${testLabel}=${owner} made=${Date.now()}-${Math.random()}`;
  const { Id } = await client.json('POST', '/commit', created, {
    query: { container, repo: repository, tag, changes },
    body: {},
  });
  await client.call('DELETE', `/containers/${container}`);
  const headers = authHeader({ repository, version: tag, full: image }, alice);
  const stream = await client.stream('POST', `/images/${repository}/push`, { query: { tag }, headers });
  for await (const line of jsonLines(stream)) {
    const { error } = pushed.parse(line);
    if (error !== undefined) throw new Error(`cannot push ${image}: ${error}`);
  }
  // The name goes back to what it named here, if anything: only a pull may bring the new image.
  await client.call('DELETE', `/images/${Id}`, { query: { force: true } });
  if (before !== undefined) {
    await client.call('POST', `/images/${before}/tag`, { query: { repo: repository, tag } });
  }
}

/** Removes all images that were published for `owner`. */
export async function removePublished(client: DockerClient, owner: string): Promise<void> {
  const filters = JSON.stringify({ label: [`${testLabel}=${owner}`] });
  for (const { Id } of await client.json('GET', '/images/json', z.array(created), { query: { filters } })) {
    await client.call('DELETE', `/images/${Id}`, { query: { force: true } });
  }
}

async function idOf(client: DockerClient, image: string): Promise<string | undefined> {
  try {
    return (await client.json('GET', `/images/${image}/json`, created)).Id;
  } catch (error) {
    if (isReply(error, 404)) return undefined;
    throw error;
  }
}
