/** The platform's image registry, for who is logged in (OCI distribution specification). */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { TroupeError } from '../../../client/index.ts';
import type { ByteAnswer } from '../../../client/node/index.ts';
import { readAtMost } from '../../../lib/input.ts';
import { ClientFailure } from '../failure.ts';
import { type FileSession, requester } from '../own-client.ts';
import { MEDIA } from './archive.ts';

type Action = 'pull' | 'push' | 'delete';

/** A token is asked for anew after this, ms: it lasts five minutes, and is looked at when a request begins. */
const TOKEN_MS = 3 * 60_000;
const MOST_BYTES = 4 * 1024 * 1024;

/** The kinds of manifests that are understood, as a request says them. */
export const ACCEPTED = [MEDIA.dockerManifest, MEDIA.ociManifest, MEDIA.dockerList, MEDIA.ociIndex].join(', ');

/** What is in a registry under a name. */
export interface ImageName {
  readonly host: string;
  readonly repository: string;
  readonly tag: string;
}

/** The whole name, as a container takes it. */
export const referenceOf = ({ host, repository, tag }: ImageName): string => `${host}/${repository}:${tag}`;

/** `app`, `app:1`, `ann/app:1`, or with the registry. Throws ClientFailure. */
export function imageName(text: string, host: string, username: string): ImageName {
  const bare = text.startsWith(`${host}/`) ? text.slice(host.length + 1) : text;
  const [, path = '', tag = 'latest'] = /^([^:@]+)(?::([A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?$/.exec(bare) ?? [];
  const repository = path.includes('/') ? path : `${username}/${path}`;
  if (!/^[a-z0-9]+(?:(?:[._]|__|-+|\/)[a-z0-9]+)+$/.test(repository))
    throw new ClientFailure('usage', `${text} is no name of an image: name it ${username}/app:1, or app:1.`);
  return { host, repository, tag };
}

/** What a request of a repository carries, asked before each: tokens are short-lived. */
type Authorization = () => Promise<string | undefined>;

/** One repository of a registry. */
export class Repository {
  readonly #url: string;
  readonly #name: ImageName;
  readonly #authorization: Authorization;
  readonly #request: ReturnType<typeof requester>;

  /** One of the platform's registry. `url`: of the registry, as it is reached from here. */
  static own(session: FileSession, url: string, name: ImageName, actions: readonly Action[]): Repository {
    return new Repository(url, name, ownBearer(session, name.repository, actions), session.profile);
  }

  /** `profile`: whose authority is trusted. */
  constructor(
    url: string,
    name: ImageName,
    authorization: Authorization,
    profile: Pick<FileSession['profile'], 'authority'>,
  ) {
    this.#url = url;
    this.#name = name;
    this.#authorization = authorization;
    this.#request = requester(profile);
  }

  /** Begins an upload and gives it up: who may send nothing is refused. */
  async tryUpload(): Promise<void> {
    const begun = await this.#send('POST', 'blobs/uploads/');
    // One that stays is thrown away by the registry.
    await this.#send('DELETE', this.#uploadOf(begun).href).catch(() => undefined);
  }

  /** Whether it has the blob. */
  async hasBlob(digest: string): Promise<boolean> {
    return (await this.#unlessMissing(this.#send('HEAD', `blobs/${digest}`))) !== undefined;
  }

  /** Sends a blob whose digest and size are known. */
  async putBlob(digest: string, size: number, body: Readable): Promise<void> {
    const begun = await this.#send('POST', 'blobs/uploads/');
    const url = this.#uploadOf(begun);
    url.searchParams.set('digest', digest);
    await this.#send('PUT', url.href, { body, length: size, type: 'application/octet-stream' });
  }

  /** Puts a manifest under the tag, or under its digest alone. Resolves with its digest. */
  async putManifest(bytes: Buffer, mediaType: string, under: 'tag' | 'digest' = 'tag'): Promise<string> {
    const digest = digestOf(bytes);
    const body = { body: Readable.from([bytes]), length: bytes.length, type: mediaType };
    await this.#send('PUT', `manifests/${under === 'tag' ? this.#name.tag : digest}`, body);
    return digest;
  }

  /** The manifest under a tag, its own unless another is named; undefined without one. */
  async manifest(
    tag: string = this.#name.tag,
  ): Promise<{ readonly bytes: Buffer; readonly mediaType: string } | undefined> {
    const answer = await this.#unlessMissing(this.#send('GET', `manifests/${tag}`, { accept: ACCEPTED }));
    if (answer === undefined) return undefined;
    return { bytes: answer.bytes, mediaType: answer.header('content-type') ?? MEDIA.ociManifest };
  }

  /** Removes a manifest, and with it all tags that lead to it. */
  async deleteManifest(digest: string): Promise<void> {
    await this.#send('DELETE', `manifests/${digest}`);
  }

  #uploadOf(begun: ByteAnswer): URL {
    return new URL(begun.header('location') ?? '', `${this.#url}/v2/${this.#name.repository}/blobs/uploads/`);
  }

  async #send(
    method: string,
    path: string,
    { body, length, type, accept }: { body?: Readable; length?: number; type?: string; accept?: string } = {},
  ): Promise<ByteAnswer & { readonly bytes: Buffer }> {
    const { repository } = this.#name;
    const url = path.startsWith('http') ? path : `${this.#url}/v2/${repository}/${path}`;
    // Where blobs are sent to elsewhere, nobody there is told who comes.
    const isHere = new URL(url).origin === new URL(this.#url).origin;
    const authorization = isHere ? await this.#authorization() : undefined;
    const headers = {
      ...(authorization === undefined ? {} : { authorization }),
      ...(type === undefined ? {} : { 'content-type': type }),
      ...(accept === undefined ? {} : { accept }),
    };
    const empty = method === 'POST' ? { length: 0 } : {};
    const sent = body === undefined ? empty : { body, length };
    const answer = await this.#request({ method, url, headers, ...sent });
    const bytes = await readAtMost(answer.body, MOST_BYTES);
    if (bytes === undefined) throw new ClientFailure('failed', 'The answer of the registry is too long.');
    return { ...answer, bytes };
  }

  async #unlessMissing<T>(answer: Promise<T>): Promise<T | undefined> {
    return answer.catch((error: unknown) => {
      if (error instanceof TroupeError && error.status === 404) return undefined;
      throw error;
    });
  }
}

/** The platform's own token for a repository, made anew as it grows old. */
function ownBearer(session: FileSession, repository: string, actions: readonly Action[]): Authorization {
  let kept: { readonly text: string; readonly until: number } | undefined;
  return async () => {
    if (kept !== undefined && Date.now() < kept.until) return kept.text;
    const until = Date.now() + TOKEN_MS;
    const scope = `repository:${repository}:${actions.join(',')}`;
    const { token, access } = await session.client.call('ownRegistryToken', { query: { scope } });
    const granted = access.find((each) => each.repository === repository)?.actions ?? [];
    const lacking = actions.filter((action) => !granted.includes(action));
    // While the disk is full this right is left out for everybody.
    if (lacking.join() === 'push' && granted.includes('delete'))
      throw new ClientFailure(
        'state',
        `To take off one tag takes the right to push at ${repository}: your token lacks it, or the disk of the ` +
          'registry is full. `skopeo delete` removes an image with all its tags.',
      );
    if (lacking.length > 0)
      throw new ClientFailure(
        'forbidden',
        `You may not ${lacking.join(' and ')} at ${repository}: yours are the repositories that begin with your name.`,
      );
    kept = { text: `Bearer ${token}`, until };
    return kept.text;
  };
}

/** Where the registry is, as it is named and as it is reached from here. Rejects with ClientFailure without one. */
export async function registryOf({ client, profile }: FileSession) {
  const { registry_host: host, domain, ports, architecture } = await client.call('showPlatformFacts');
  if (host === null)
    throw new ClientFailure(
      'state',
      'This platform has no image registry. `troupe doctor`, on its machine, says why and how to get one.',
    );
  const own = new URL(profile.url);
  const isOwn = host === `registry.${domain}`;
  // Behind the same gateway, at the same port.
  const port = own.protocol === 'https:' && own.hostname === domain ? own.port : String(ports?.https ?? '');
  const isHere = /^(localhost|127\.\d+\.\d+\.\d+)(:\d+)?$/.test(host);
  const url = isOwn ? `https://${host}${port === '' ? '' : `:${port}`}` : `${isHere ? 'http' : 'https'}://${host}`;
  return { host, url, architecture };
}

/** The digest of bytes. */
export const digestOf = (bytes: Buffer): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
