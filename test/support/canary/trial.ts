/** The trial of the canaries: secrets go through everything that happens to a container, and then nothing outside it may have them. */
import assert from 'node:assert/strict';
import { appImage } from '../engine/app-image.ts';
import { docker, inDocker } from '../engine/docker-client.ts';
import { standIn } from '../network/dns-provider.ts';
import { tidily } from '../temp.ts';
import { until } from '../until.ts';
import type { FoundCanary } from './canaries.ts';
import { CRASHING, doAll } from './deeds.ts';
import { lookAtCommands, lookAtDocker, lookAtFiles, lookAtProcesses, lookAtReplies } from './places.ts';
import { CanaryWorld } from './world.ts';

/** What a trial found. */
export interface CanaryReport {
  readonly canaries: number;
  readonly megabytes: number;
  readonly seconds: number;
  /** Where they should not be. */
  readonly found: readonly FoundCanary[];
}

interface CanaryOptions {
  readonly isShort?: boolean;
  readonly say?: (line: string) => void;
}

/** What only an owner is shown, and the owner's own log. */
const isRight = ({ canary, place }: FoundCanary): boolean =>
  canary === 'a variable' && /^GET \/compute\/containers\/[a-z0-9]+\/settings as ann \(200\)$/.test(place);

/**
 * Runs it, on a platform of its own in the Docker Engine of DOCKER_HOST. `isShort`: without the container that crashes five times, with one end
 * of the platform, and with the replies about one container.
 */
export function runCanary({ isShort = false, say = () => {} }: CanaryOptions = {}): Promise<CanaryReport> {
  const began = performance.now();
  const since = Math.floor(Date.now() / 1000);
  return tidily(async (t) => {
    const provider = await standIn(t);
    t.after(
      () =>
        void docker()
          .call('DELETE', `/images/${CRASHING}`, { query: { force: true } })
          .catch(() => {}),
    );
    const env = { DEFAULT_IMAGE: await appImage(), DNS_PROVIDER_URL: provider.url, REGISTRY: 'auto' };
    const world = await CanaryWorld.open(t, env);
    // Also when it fails: others use this Docker.
    t.after(() => removeAll(world));
    const ids = await doAll(world, { isShort, say });
    await insideAlone(world, ids);
    await lookAtReplies(world, isShort ? ids.slice(0, 1) : ids);
    await lookAtCommands(world, ids);
    say('replies and commands are looked through');
    await lookAtDocker(world, ids, since);
    await lookAtProcesses(world);
    say('Docker and processes are looked through');
    await removeAll(world);
    await lookAtFiles(world);
    world.search("the platform's log", world.platform.log());
    return {
      ...{ canaries: world.canaries.count, megabytes: Math.round(world.canaries.searched / 1e6) },
      ...{ seconds: Math.round((performance.now() - began) / 1000), found: world.found.filter((one) => !isRight(one)) },
    };
  });
}

/** Where they have to be, or the trial would see nothing anywhere: in the settings, and inside. */
async function insideAlone(world: CanaryWorld, ids: readonly string[]): Promise<void> {
  assert.ok(world.found.length === 0 || world.found.every(isRight), JSON.stringify(world.found, null, 2));
  const [box = ''] = ids;
  const { text } = await world.ask(
    'ann',
    'GET',
    `${world.urls.compute}/compute/containers/${box}/settings`,
    undefined,
    true,
  );
  assert.deepEqual(
    world.canaries.find('settings', text).map(({ canary }) => canary),
    ['a variable'],
  );
  const [found] = await inDocker(box);
  const kept = await docker().call('GET', `/containers/${found?.id}/archive`, { query: { path: '/etc/troupe/env' } });
  const inside = world.canaries.find('inside', kept).map(({ canary }) => canary);
  assert.deepEqual(inside.sort(), ['a variable', 'at create', 'of a file', 'typed anew', 'with a check']);
}

async function removeAll(world: CanaryWorld): Promise<void> {
  for (const who of ['ann', 'bob'] as const) {
    const { text } = await world.compute('GET', '/containers', undefined, who);
    for (const [, id] of text.matchAll(/"id":"([a-z0-9]{12})"/g)) {
      await world.compute('DELETE', `/containers/${id}`, undefined, who);
      await until(async () => (await inDocker(id ?? '')).length === 0, {
        what: 'Docker forgets it',
        timeoutMs: 30_000,
      });
    }
  }
  const own = ['crash', 'second'].map((name) => `registry.${world.platform.ready.domain}/ann/${name}:1`);
  for (const image of [...own, CRASHING])
    await docker()
      .call('DELETE', `/images/${image}`)
      .catch(() => {});
}
