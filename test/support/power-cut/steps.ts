/** The steps that a power cut interrupts: how each is done, and what must be true after. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { registryFiles } from '../../../cmd/node/registry/files.ts';
import { appImageOf } from '../engine/app-image.ts';
import { leftInDocker } from '../engine/docker-client.ts';
import { until } from '../until.ts';
import type { Plant } from './plant.ts';

/** A step from version n-1 to n. */
export interface CutStep {
  readonly name: string;
  /** Containers that go down with the power. */
  readonly containers: readonly string[];
  /** What is ready before it begins. */
  prepare?(version: number): Promise<unknown>;
  /** Begins it; resolves when it is done. After a power cut nobody waits for it. */
  begin(version: number): Promise<void>;
  /** The version that is there, whole. Throws when it is none, or a mix, or something of a half step is left. */
  version(): Promise<number>;
}

const ended = (plant: Plant, words: readonly string[]): Promise<void> =>
  new Promise((resolve, reject) => {
    plant.begin(words).once('exit', (code, signal) => {
      if (code === 0) resolve();
      else reject(new Error(`${words[0]} ended with ${code ?? signal}`));
    });
  });

/** What is kept at a path over everything. */
const KEPT = 'head -c 100000 /dev/urandom >/root/kept && sha256sum /root/kept >/root/sum && sync';
const isKept = (plant: Plant, id: string) => plant.command('exec', id, '--', 'cd / && sha256sum -c /root/sum');

/** A deployment of a folder; with a release command as `release`. */
export async function deployStep(plant: Plant, name: 'deploy' | 'release'): Promise<CutStep> {
  const id = await plant.make({ name });
  await plant.settled(id);
  await plant.command('exec', id, '--', KEPT);
  const left = await leftInDocker(id);
  const script = 'echo begun >>/root/releases; sleep 0.4; echo done >>/root/releases';
  return {
    name,
    containers: [id],
    begin: async (version) => {
      const folder = await plant.write(name, { 'index.html': `${version}`, 'second.html': `${version}` });
      const start = ['--start', 'exec busybox httpd -f -p $PORT -h .', '--build', '', '--grace', '20'];
      await ended(plant, ['deploy', folder, ...start, ...(name === 'release' ? ['--release', script] : [])]);
    },
    version: async () => {
      const [one, two] = [await plant.page(id, '/index.html'), await plant.page(id, '/second.html')];
      assert.equal(one, two, 'a mix of two versions');
      const listed = await plant.command(
        'exec',
        id,
        '--',
        'cd /root/app; ls; ls releases; cat pending 2>/dev/null; true',
      );
      assert.doesNotMatch(listed, /^(pending|current\.new)$/m, 'a switch is still pending');
      await isKept(plant, id);
      assert.equal(await leftInDocker(id), left, 'something is left in Docker');
      return Number(one);
    },
  };
}

/** A change of the image and the settings of a container at once. */
export async function revisionStep(plant: Plant): Promise<CutStep> {
  const images: string[] = [];
  for (const version of ['0', '1']) {
    const archive = await plant.archive(await appImageOf(`page-${version}`));
    await plant.command('image', 'push', archive, `page:${version}`);
    images.push(`registry.${plant.domain}/admin/page:${version}`);
  }
  const health = { http: { port: 8080, path: '/' }, grace: 60 };
  const id = await plant.make({ name: 'revision', image: images[0], env: { VERSION: '0' }, health });
  await plant.settled(id);
  await plant.command('exec', id, '--', KEPT);
  const left = await leftInDocker(id);
  return {
    name: 'revision',
    containers: [id],
    begin: async (version) => {
      const env = { VERSION: String(version) };
      const { status, json } = await plant.compute('PATCH', `/containers/${id}`, { image: images[version % 2], env });
      assert.equal(status, 200, JSON.stringify(json));
      await until(async () => (await plant.page(id, '/')) === `page-${version % 2} ${version}`, {
        ...{ what: `version ${version} is there`, timeoutMs: 60_000 },
      });
    },
    version: async () => {
      const [image = '', version = ''] = (await plant.page(id, '/')).split(' ');
      assert.equal(image, `page-${Number(version) % 2}`, 'a mix of two versions');
      assert.equal((await plant.settled(id)).image, images[Number(version) % 2], 'the row says another image');
      const { json } = await plant.compute('GET', `/containers/${id}/settings`);
      assert.deepEqual(json.env, { VERSION: version }, 'the row says other settings');
      await isKept(plant, id);
      await until(async () => (await leftInDocker(id)) === left, { what: 'nothing is left in Docker' });
      return Number(version);
    },
  };
}

/** A push of an image to a tag that has another. */
export async function pushStep(plant: Plant): Promise<CutStep> {
  const [digests, archives] = [new Map<string, number>(), new Map<number, string>()];
  return {
    name: 'push',
    containers: [],
    prepare: async (version) => {
      if (!archives.has(version)) archives.set(version, await plant.archive(await appImageOf(`push-${version}`)));
    },
    begin: async (version) => {
      await ended(plant, ['image', 'push', archives.get(version) ?? '', 'push:1']);
      digests.set((await plant.pulled('push', '1')) ?? '', version);
    },
    version: async () => {
      const digest = await plant.pulled('push', '1');
      const uploads = join(registryFiles(plant.data).store, 'docker/registry/v2/repositories/admin/push/_uploads');
      const left = await readdir(uploads).catch(() => []);
      assert.deepEqual(left, [], 'uploads are left');
      // A digest that is not known is whole, and can be but that of the push that was cut.
      const newest = Math.max(...digests.values());
      return digests.get(digest ?? '') ?? newest + 1;
    },
  };
}
