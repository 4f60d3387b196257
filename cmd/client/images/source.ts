/** An image in a registry elsewhere (OCI distribution specification; token specification). */
import { Readable } from 'node:stream';
import { ClientFailure } from '../failure.ts';
import { MEDIA } from './archive.ts';
import { archivedConfig, archivedIndex, archivedManifest, type Descriptor } from './archive-json.ts';
import { digestOf } from './registry.ts';
import { addressOfRegistry, answerToChallenge, askRegistry, wholeAnswer } from './registry-login.ts';
import type { SourceLogin } from './source-login.ts';

const HUB = 'docker.io';

/** Where an image is. */
interface SourceName {
  readonly host: string;
  readonly repository: string;
  /** A tag, or a digest. */
  readonly version: string;
}

/** `nginx:1.27`, `ghcr.io/owner/app@sha256:...`: as `docker pull` takes it. Throws ClientFailure. */
export function sourceName(text: string): SourceName {
  const [, name = '', tag = 'latest', digest] =
    /^([^@]+?)(?::([A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(sha256:[0-9a-f]{64}))?$/.exec(text) ?? [];
  const parts = name.split('/');
  const [first = ''] = parts;
  const hasHost = parts.length > 1 && (/[.:]/.test(first) || first === 'localhost');
  const host = hasHost ? first : HUB;
  const path = hasHost ? parts.slice(1) : parts;
  if (host === HUB && path.length === 1) path.unshift('library');
  const isGood =
    /^[a-zA-Z0-9.-]+(:[0-9]{1,5})?$/.test(host) && path.every((part) => /^[a-z0-9]+([._-]+[a-z0-9]+)*$/.test(part));
  if (!isGood)
    throw new ClientFailure('usage', `${text} is no name of an image: name it nginx:1.27, or ghcr.io/owner/app:1.`);
  return { host, repository: path.join('/'), version: digest ?? tag };
}

/** An image for one kind of machine. */
interface SourceImage {
  readonly bytes: Buffer;
  readonly mediaType: string;
  /** Its configuration and its layers. */
  readonly blobs: readonly Descriptor[];
}

/** See above. Nothing but the name of the image, and the login if there is one, is told to the registry. */
export class ImageSource {
  readonly #name: SourceName;
  readonly #base: string;
  readonly #login: SourceLogin | undefined;
  #authorization: string | undefined;

  constructor(name: SourceName, login?: SourceLogin) {
    this.#name = name;
    this.#login = login;
    this.#base = `${addressOfRegistry(name.host)}/v2/${name.repository}`;
  }

  /** The image for machines of `architecture`. Rejects with ClientFailure when there is none. */
  async image(architecture: string | undefined): Promise<SourceImage> {
    let manifest = await this.#manifest(this.#name.version);
    if (manifest.mediaType === MEDIA.ociIndex || manifest.mediaType === MEDIA.dockerList) {
      const images = archivedIndex(manifest.bytes).filter((each) => each.architecture !== 'unknown');
      const fitting = images.find((each) => architecture === undefined || each.architecture === architecture);
      if (fitting === undefined)
        throw this.#unfit([...new Set(images.map((each) => each.architecture ?? 'unknown'))].join(', '), architecture);
      manifest = await this.#manifest(fitting.digest);
    }
    const { config, layers } = archivedManifest(manifest.bytes);
    const text = await this.#whole(await this.#get(`blobs/${config.digest}`));
    this.#check(text, config.digest);
    const { architecture: found = 'amd64', os = 'linux' } = archivedConfig(text);
    if (os !== 'linux' || (architecture !== undefined && found !== architecture))
      throw this.#unfit(`${os}/${found}`, architecture);
    return { ...manifest, blobs: [...layers, config] };
  }

  /** The bytes of a part. The stream fails when they are not as many as the manifest says. */
  async blob({ digest, size }: Descriptor): Promise<Readable> {
    const { body } = await this.#get(`blobs/${digest}`);
    const { host } = this.#name;
    async function* exactly(): AsyncGenerator<Uint8Array> {
      let bytes = 0;
      for await (const part of body ?? []) {
        bytes += part.byteLength;
        if (bytes > size) break;
        yield part;
      }
      if (bytes !== size)
        throw new ClientFailure('failed', `${host} sent not all of ${digest}, or too much: try it again.`);
    }
    return Readable.from(exactly(), { objectMode: false });
  }

  async #manifest(version: string) {
    const response = await this.#get(`manifests/${version}`);
    const bytes = await this.#whole(response);
    if (version.startsWith('sha256:')) this.#check(bytes, version);
    const mediaType = response.headers.get('content-type')?.split(';')[0]?.trim() ?? MEDIA.ociManifest;
    return { bytes, mediaType };
  }

  #check(bytes: Buffer, digest: string): void {
    if (digestOf(bytes) !== digest)
      throw new ClientFailure('failed', `${this.#name.host} sent something else than ${digest}: do not trust it.`);
  }

  #unfit(found: string, architecture: string | undefined): ClientFailure {
    const what = `${this.#name.repository}:${this.#name.version}`;
    return new ClientFailure(
      'usage',
      `${what} is for ${found}, and the platform runs linux/${architecture ?? 'amd64'}: take one that is for that.`,
    );
  }

  #whole(response: Response): Promise<Buffer> {
    return wholeAnswer(this.#name.host, response);
  }

  async #get(path: string): Promise<Response> {
    const { host, repository, version } = this.#name;
    let response = await askRegistry(host, `${this.#base}/${path}`, this.#authorization);
    if (response.status === 401) {
      await response.body?.cancel();
      const challenge = response.headers.get('www-authenticate') ?? '';
      const asked = { host, repository, actions: 'pull', login: this.#login };
      this.#authorization = await answerToChallenge(challenge, asked);
      response = await askRegistry(host, `${this.#base}/${path}`, this.#authorization);
    }
    if (response.ok) return response;
    await response.body?.cancel();
    const what = `${host}/${repository}${version.startsWith('sha256:') ? '@' : ':'}${version}`;
    if (response.status === 429)
      throw new ClientFailure('limit', `${host} lets nobody pull so much at once: try it again later.`);
    if ([401, 403, 404].includes(response.status))
      throw this.#login === undefined
        ? new ClientFailure(
            'missing',
            `${host} has no ${what} that anybody may pull. For a private one log in there: --username NAME, or ` +
              `\`docker login ${host}\` before.`,
          )
        : new ClientFailure(
            'missing',
            `${host} has no ${what} that ${this.#login.username} may pull, or the password is another. --username ` +
              'names another user.',
          );
    throw new ClientFailure('unreachable', `${host} answered with status ${response.status}: try it again later.`);
  }
}
