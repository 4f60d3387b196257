/** `troupe image catalog`: the platform's own images, built on this machine and sent to a registry. */
import { BASE_NAME } from '../../../proto/built-in-images.ts';
import { EngineError } from '../../../proto/ports/engine.ts';
import { type SentImage, sentImages } from '../../../transports/engines/docker/image/sent-images.ts';
import { ClientFailure } from '../failure.ts';
import { Output } from '../output.ts';
import { openFiles } from '../own-client.ts';
import type { ClientCommandOptions } from '../session.ts';
import { type ImageName, Repository, referenceOf, registryOf } from './registry.ts';
import { addressOfRegistry, answerToChallenge, askRegistry } from './registry-login.ts';
import { presentFor, sendImage } from './sent-image.ts';
import { askedLogin, keptLogin, type SourceLogin } from './source-login.ts';

export interface CatalogCommandOptions extends ClientCommandOptions {
  /** Where the images go: `host/path/`. */
  readonly to?: string;
  /** Of the registry there. */
  readonly username?: string;
  readonly again?: true;
}

/** Where the images go. */
interface ImagePlace {
  /** With a slash at its end. */
  readonly place: string;
  repository(name: ImageName): Repository;
}

/** A token is asked for anew after this, ms: many last five minutes. */
const TOKEN_MS = 3 * 60_000;
/** How the kinds of machines are called in images. */
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };

/**
 * Builds the named images, or all, for machines like this one, and sends those that are not there. What is there for
 * other kinds of machines stays.
 */
export async function sendCatalog(names: readonly string[], options: CatalogCommandOptions): Promise<void> {
  const out = new Output(options);
  const images = await sentImages();
  const unknown = names.find((name) => !images.some((image) => image.name === name));
  if (unknown !== undefined)
    throw new ClientFailure(
      'usage',
      `There is no ${unknown} in the catalog: it has ${images.map(({ name }) => name).join(', ')}.`,
    );
  const architecture = ARCHITECTURES[process.arch];
  if (architecture === undefined)
    throw new ClientFailure(
      'state',
      `Nothing of the catalog runs on ${process.arch}: use a machine of amd64 or arm64.`,
    );
  const target = await targetOf(options, out);
  const interrupt = new AbortController();
  const release = options.place.onEnd(() => interrupt.abort(new ClientFailure('interrupted', 'Interrupted.')));
  const done: { image: string; name: string; digest: string; sent: boolean }[] = [];
  try {
    for (const image of images.filter(({ name }) => names.length === 0 || names.includes(name))) {
      const name = nameAt(target.place, image);
      const way = { repository: target.repository(name), architecture, signal: interrupt.signal };
      const tell = (line: string): void => {
        if (!out.json) out.note(`${image.name}: ${line}`);
      };
      const found = await presentFor(way);
      const present = options.again === true ? undefined : found;
      // Who may not send it is told now, and not after minutes.
      if (present === undefined) await way.repository.tryUpload();
      const digest = present ?? (await sendImage(image, way, tell));
      tell(present === undefined ? `${referenceOf(name)} is sent` : `${referenceOf(name)} is there already`);
      done.push({ image: referenceOf(name), name: image.name, digest, sent: present === undefined });
    }
  } catch (error) {
    interrupt.signal.throwIfAborted();
    // What a build came upon: mmdebstrap is missing, or failed.
    throw error instanceof EngineError ? new ClientFailure('failed', error.message, { cause: error }) : error;
  } finally {
    release();
  }
  const base = done.find(({ name }) => name === BASE_NAME);
  const more = base === undefined ? '' : `, and to use its default image DEFAULT_IMAGE=${base.image}`;
  out.done(
    { place: target.place, images: done },
    `The platform finds them with CATALOG_IMAGES=${target.place}${more}.`,
  );
}

/** The registry of the platform that somebody is logged in to, or another. */
async function targetOf(options: CatalogCommandOptions, out: Output): Promise<ImagePlace> {
  const { to, username } = options;
  if (to === undefined) {
    const session = openFiles(options);
    const { host, url } = await registryOf(session);
    return {
      place: `${host}/library/`,
      repository: (name) => Repository.own(session, url, name, ['pull', 'push']),
    };
  }
  const place = to.replace(/\/?$/, '/');
  const [host = ''] = place.split('/', 1);
  if (!/^[a-z0-9.-]+(:[0-9]{1,5})?(\/[a-z0-9]+([._-]+[a-z0-9]+)*)+\/$/.test(place))
    throw new ClientFailure('usage', `${to} is no place in a registry: name it registry.example.com/library/.`);
  const { machine } = out.place;
  const login = username !== undefined ? await askedLogin(out, username, host) : machine && keptLogin(machine, host);
  return {
    place,
    repository: (name) =>
      new Repository(addressOfRegistry(host), name, otherAuthorization(host, name.repository, login), {}),
  };
}

/** What a registry elsewhere wants to see of whoever sends an image. */
function otherAuthorization(host: string, repository: string, login: SourceLogin | undefined) {
  let kept: { readonly text: string | undefined; readonly until: number } | undefined;
  return async (): Promise<string | undefined> => {
    if (kept !== undefined && Date.now() < kept.until) return kept.text;
    const until = Date.now() + TOKEN_MS;
    const answer = await askRegistry(host, `${addressOfRegistry(host)}/v2/`, undefined);
    await answer.body?.cancel();
    const challenge = answer.headers.get('www-authenticate') ?? '';
    const asked = { host, repository, actions: 'pull,push', login };
    const text = answer.status === 401 ? await answerToChallenge(challenge, asked) : undefined;
    if (answer.status === 401 && text === undefined)
      throw new ClientFailure(
        'login',
        `${host} wants to know who sends images: --username NAME, or \`docker login ${host}\` before.`,
      );
    kept = { text, until };
    return text;
  };
}

function nameAt(place: string, { name, hash }: SentImage): ImageName {
  const slash = place.indexOf('/');
  return { host: place.slice(0, slash), repository: `${place.slice(slash + 1)}${name}`, tag: hash };
}
