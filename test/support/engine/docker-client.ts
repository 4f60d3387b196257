/** The Docker Engine of the tests (DOCKER_HOST), as a second pair of eyes beside the platform. */
import { z } from 'zod';
import { DockerClient } from '../../../transports/engines/docker/api/client.ts';
import { skipUnless } from '../require.ts';
import { buildTinyImage, perlFiles } from './tiny-image.ts';

/** What to put into a test's `skip`: false when a Docker Engine is named by DOCKER_HOST (the test runner starts one). */
export function skipWithoutDocker(): string | false {
  return skipUnless(
    Boolean(process.env.DOCKER_HOST),
    'no Docker Engine: set DOCKER_HOST, or run `npm test` as root with docker.io installed',
  );
}

let made: Promise<string> | undefined;

/** The reference of the tiny image, imported if it is not there yet: to be given as DEFAULT_IMAGE. */
export function tinyImage(): Promise<string> {
  made ??= (async () => {
    const image = await buildTinyImage();
    await image.build(docker(), () => {}, new AbortController().signal);
    return image.reference;
  })();
  return made;
}

let madeWithPerl: Promise<string> | undefined;

/** The same with perl, as images made from Debian have it: shells with a session id outlive the process in it. */
export function perlImage(): Promise<string> {
  madeWithPerl ??= (async () => {
    const image = await buildTinyImage('-perl', await perlFiles());
    await image.build(docker(), () => {}, new AbortController().signal);
    return image.reference;
  })();
  return madeWithPerl;
}

/** The tests' own client. */
export function docker(): DockerClient {
  return new DockerClient(process.env.DOCKER_HOST ?? '');
}

const listed = z.object({
  Id: z.string(),
  State: z.string(),
  NetworkSettings: z.object({ Networks: z.record(z.string(), z.object({ IPAddress: z.string() })) }),
});

/** The Docker containers of one container of the platform: normally one, none after its deletion. */
export async function inDocker(
  containerId: string,
): Promise<{ id: string; state: string; address: string; networks: string[] }[]> {
  const found = await docker().json('GET', `/containers/json?all=1&filters=${labelled(containerId)}`, z.array(listed));
  return found.map(({ Id, State, NetworkSettings }) => ({
    id: Id,
    state: State,
    address: Object.values(NetworkSettings.Networks)[0]?.IPAddress ?? '',
    networks: Object.keys(NetworkSettings.Networks),
  }));
}

/** How many containers, volumes and networks Docker still has of one container of the platform. */
export async function leftInDocker(containerId: string): Promise<number> {
  const schema = z.object({ Volumes: z.array(z.unknown()).nullable() });
  const { Volumes } = await docker().json('GET', `/volumes?filters=${labelled(containerId)}`, schema);
  const networks = await docker().json('GET', `/networks?filters=${labelled(containerId)}`, z.array(z.unknown()));
  return (await inDocker(containerId)).length + (Volumes?.length ?? 0) + networks.length;
}

function labelled(containerId: string): string {
  return encodeURIComponent(JSON.stringify({ label: [`troupe.container=${containerId}`] }));
}
