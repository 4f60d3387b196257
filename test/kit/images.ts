/** The tiny image in the Docker Engine of the tests, for platforms started as child processes. */
import { DockerClient } from '../../transports/docker/client.ts';
import { buildTinyImage } from '../engine/tiny-image.ts';
import { skipUnless } from './require.ts';

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
    await image.build(new DockerClient(process.env.DOCKER_HOST ?? ''), () => {}, new AbortController().signal);
    return image.reference;
  })();
  return made;
}
