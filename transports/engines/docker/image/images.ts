import { z } from 'zod';
import { Semaphore, SharedTasks } from '../../../../lib/concurrency.ts';
import { errorText } from '../../../../lib/errors.ts';
import { builtInName } from '../../../../proto/built-in-images.ts';
import { EngineError, type EnsureImageOptions, type RegistryAuth } from '../../../../proto/ports/engine.ts';
import type { LocalRegistry } from '../../../../proto/ports/local-registry.ts';
import type { Log } from '../../../../proto/ports/log.ts';
import { cleanReason, jsonLines, listOf, toEngineError } from '../../common/calls.ts';
import { type ImageReference, parseImageReference, pullError } from '../../common/image-reference.ts';
import { type DockerClient, DockerReplyError, isReply, unlessReply } from '../api/client.ts';
import { unfitProblem } from './architecture.ts';
import { type BaseImage, progressLine } from './base-image.ts';
import type { BuiltIns } from './built-ins.ts';
import { digestOfTag, fixedTag } from './fixed-tag.ts';

/** A registry that says nothing for so long is given up, in milliseconds. */
const SILENCE_MS = 5 * 60_000;
/** After so long whoever waits hears that the registry says nothing, and so often, in milliseconds. */
const QUIET_MS = 4000;
/** Progress lines come at most this often, in milliseconds. */
const PROGRESS_MS = 500;

const kindView = z.object({ Os: z.string().default(''), Architecture: z.string().default('') });
const versionView = z.object({ Arch: z.string() });
const digestsView = z.object({ RepoDigests: listOf(z.string()) });
const taggedViews = z.array(z.object({ RepoTags: listOf(z.string()) }));
const pulledView = z.object({ Id: z.string() });
/** What Docker says of a registry that has no TLS, and is no exception. */
const TLS_ONLY = 'HTTP response to HTTPS client';
/** Docker's last words of a pull. */
const DIGEST = /^Digest: (sha256:[0-9a-f]{64})$/;
/** Images whose digests are remembered at most. */
const MOST_DIGESTS = 1000;

/** An image as it is named here, and what its registry is asked for: a tag, or a digest. */
interface LocalReference extends ImageReference {
  readonly asked: string;
}

/** Makes images present: builds the built-in ones, pulls the others. */
export class Images {
  readonly #client: DockerClient;
  readonly #builtIns: BuiltIns;
  readonly #log: Log;
  readonly #registry: LocalRegistry | undefined;
  readonly #tasks = new SharedTasks();
  readonly #builds = new Semaphore(1);
  /** By ids of images: what is pulled from an address loses its digest with the address's name. */
  readonly #digests = new Map<string, string>();
  #isBuilding = false;
  #pulls = 0;

  /** `registry`: is asked at its address, whatever DNS says of its name. */
  constructor(client: DockerClient, builtIns: BuiltIns, log: Log, registry?: LocalRegistry) {
    this.#client = client;
    this.#builtIns = builtIns;
    this.#log = log;
    this.#registry = registry;
  }

  /**
   * `Engine.ensureImage` on Docker. Calls at the same time for one image share the work, but not when they show the
   * registry who they are: what one user may pull must not come to another. (Docker itself fetches a layer once.)
   */
  async ensure(image: string, options: EnsureImageOptions): Promise<void> {
    const { always, auth, signal: given } = options;
    // A name that one had before is not to be asked of a registry.
    const current = await this.#builtIns.current(image).catch((error: unknown) => Promise.reject(toEngineError(error)));
    const reference = this.#local(current);
    const made = this.#builtIns.made(current);
    // Its name holds the hash of its recipe: what is present is what would be built.
    if (
      (builtInName(current) !== undefined || made !== undefined || !always) &&
      (await imagePresent(this.#client, reference))
    )
      return;
    this.#pulls += 1;
    const key = auth === undefined ? reference.full : `${reference.full} ${this.#pulls}`;
    try {
      await this.#tasks.run(key, options, (onProgress, signal) =>
        made !== undefined
          ? this.#build(made, reference, onProgress, signal)
          : this.#pull(reference, auth, onProgress, signal),
      );
    } catch (error) {
      if (given?.aborted === true) throw new EngineError('unavailable', 'Given up.', { cause: error });
      throw toEngineError(error);
    }
  }

  /** `Engine.isBuilt` on Docker. */
  async isBuilt(reference: string): Promise<boolean> {
    try {
      return await imagePresent(this.#client, parseImageReference(reference));
    } catch (error) {
      throw toEngineError(error);
    }
  }

  /**
   * The name by which the image is here. An image of the platform's own registry that is named by its digest has a tag
   * in the place of it: Docker gives a digest to the repository alone from which it pulled.
   */
  nameOf(image: string): string {
    return this.#local(image).full;
  }

  /** The digest of the image with this id, which a container was made of under the name `of`; undefined: not known. */
  async digestOf(id: string, of: string): Promise<string | undefined> {
    const { repository, version } = parseImageReference(of);
    const fixed = digestOfTag(version);
    if (fixed !== undefined) return fixed;
    if (version.startsWith('sha256:')) return version;
    const known = this.#digests.get(id);
    if (known !== undefined) return known;
    const view = await unlessReply(this.#client.json('GET', `/images/${id}/json`, digestsView), 404);
    return view?.RepoDigests.find((one) => one.startsWith(`${repository}@`))?.slice(repository.length + 1);
  }

  /** `Engine.forgetImages` on Docker: of the registry beside, whose images have a tag in the place of their digest. */
  async forget(named: () => Promise<readonly string[]>): Promise<readonly string[]> {
    try {
      const host = this.#registry?.host;
      if (host === undefined) return [];
      const all = await this.#client.json('GET', '/images/json', taggedViews);
      const fixed = all
        .flatMap(({ RepoTags }) => RepoTags)
        .filter((tag) => tag.startsWith(`${host}/`) && digestOfTag(tag.slice(tag.lastIndexOf(':') + 1)) !== undefined);
      if (fixed.length === 0) return [];
      const kept = new Set((await named()).map((image) => this.#local(image).full));
      const gone: string[] = [];
      for (const tag of fixed) {
        if (kept.has(tag)) continue;
        // 409: a container is made of it.
        if ((await unlessReply(this.#client.call('DELETE', `/images/${tag}`), 404, 409)) !== undefined) gone.push(tag);
      }
      return gone;
    } catch (error) {
      throw toEngineError(error);
    }
  }

  close(): Promise<void> {
    return this.#tasks.close();
  }

  /** One after the other: each takes all that the machine has to give. */
  async #build(
    image: BaseImage,
    reference: ImageReference,
    onProgress: (line: string) => void,
    signal: AbortSignal,
  ): Promise<void> {
    // Somebody may have finished it while this call was on its way.
    if ((await imagePresent(this.#client, reference)) || (await this.#renamed(image, reference))) return;
    if (this.#isBuilding) onProgress('0% waiting for the build of another image');
    await this.#builds.run(
      async () => {
        this.#isBuilding = true;
        try {
          this.#log.info({ image: reference.full }, 'building the image');
          await image.build(this.#client, onProgress, signal);
        } finally {
          this.#isBuilding = false;
        }
      },
      { signal },
    );
    if (!(await imagePresent(this.#client, reference))) {
      throw new EngineError('unavailable', 'The image was built, but the container engine does not have it.');
    }
  }

  /** Renames the base image from its former name, if it was built here: a registry's has a digest there. */
  async #renamed({ former }: BaseImage, reference: ImageReference): Promise<boolean> {
    if (former === undefined) return false;
    try {
      const { RepoDigests } = await this.#client.json('GET', `/images/${former}/json`, digestsView);
      if (RepoDigests.length > 0) return false;
      const query = { repo: reference.repository, tag: reference.version };
      await this.#client.call('POST', `/images/${former}/tag`, { query });
      return true;
    } catch (error) {
      if (isReply(error, 404)) return false;
      throw error;
    }
  }

  async #pull(
    reference: LocalReference,
    auth: EnsureImageOptions['auth'],
    onProgress: (line: string) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const headers = authHeader(reference, await credentials(reference, auth));
    const source = this.#sourceOf(reference);
    const silence = new AbortController();
    const end = (): void => silence.abort();
    signal.addEventListener('abort', end);
    let timer = setTimeout(end, SILENCE_MS);
    let heardAt = Date.now();
    const waiting = setInterval(() => {
      const seconds = Math.round((Date.now() - heardAt) / 1000);
      if (seconds * 1000 >= QUIET_MS)
        onProgress(`The registry of ${reference.full} is asked for it and has not answered for ${seconds} s.`);
    }, QUIET_MS);
    try {
      const stream = await this.#client.stream('POST', '/images/create', {
        query: { fromImage: source, tag: reference.asked },
        headers,
        headTimeoutMs: SILENCE_MS,
        signal: silence.signal,
      });
      let toldAt = 0;
      let digest: string | undefined;
      for await (const line of jsonLines(stream)) {
        clearTimeout(timer);
        timer = setTimeout(end, SILENCE_MS);
        heardAt = Date.now();
        const parsed = progressLine.safeParse(line);
        if (!parsed.success) continue;
        const { error, status, id, progressDetail } = parsed.data;
        if (error !== undefined) throw pullError(reference, error);
        digest = DIGEST.exec(status ?? '')?.[1] ?? digest;
        if (Date.now() - toldAt < PROGRESS_MS || status === undefined) continue;
        toldAt = Date.now();
        const { current, total } = progressDetail ?? {};
        const percent = current !== undefined && total ? ` ${Math.floor((100 * current) / total)}%` : '';
        onProgress(cleanReason(`${id === undefined ? '' : `${id}: `}${status}${percent}`));
      }
      if (source !== reference.repository) {
        await this.#rename(source, reference);
        await this.#mustFit(reference);
      }
      if (digest !== undefined) await this.#remember(reference, digest);
      onProgress(`${reference.full} is present`);
    } catch (error) {
      if (silence.signal.aborted && !signal.aborted) {
        throw new EngineError('unavailable', `The registry of ${reference.full} stopped answering.`, { cause: error });
      }
      if (source !== reference.repository && errorText(error).includes(TLS_ONLY)) throw tlsOnly(source, error);
      throw error instanceof DockerReplyError ? pullError(reference, error.reason, error) : error;
    } finally {
      clearTimeout(timer);
      clearInterval(waiting);
      signal.removeEventListener('abort', end);
      silence.abort();
    }
  }

  /**
   * Throws EngineError `refused` for an image of the registry beside, on this very machine, whose programs the machine
   * does not run: its container would crash without a word that helps. It is not kept.
   */
  async #mustFit(reference: ImageReference): Promise<void> {
    const found = await unlessReply(this.#client.json('GET', `/images/${reference.full}/json`, kindView), 404);
    const { Arch: machine } = await this.#client.json('GET', '/version', versionView);
    const problem = found && unfitProblem(reference.full, found, machine);
    if (problem === undefined) return;
    await unlessReply(this.#client.call('DELETE', `/images/${reference.full}`), 404, 409);
    throw new EngineError('refused', problem);
  }

  #local(image: string): LocalReference {
    const reference = parseImageReference(image);
    const { repository, version } = reference;
    if (!version.startsWith('sha256:') || this.#sourceOf(reference) === repository)
      return { ...reference, asked: version };
    const tag = fixedTag(version);
    return { repository, version: tag, full: `${repository}:${tag}`, asked: version };
  }

  /** Remembers the digest of what was pulled. */
  async #remember(reference: ImageReference, digest: string): Promise<void> {
    const view = await unlessReply(this.#client.json('GET', `/images/${reference.full}/json`, pulledView), 404);
    if (view === undefined) return;
    this.#digests.delete(view.Id);
    this.#digests.set(view.Id, digest);
    for (const oldest of this.#digests.keys()) {
      if (this.#digests.size <= MOST_DIGESTS) break;
      this.#digests.delete(oldest);
    }
  }

  /** The repository by the name under which Docker is to ask for it. */
  #sourceOf({ repository }: ImageReference): string {
    const { host, address } = this.#registry ?? {};
    if (host === undefined || !repository.startsWith(`${host}/`)) return repository;
    return `${address}${repository.slice(host.length)}`;
  }

  /** Gives what was pulled from an address the name by which everybody knows it, and that alone. */
  async #rename(source: string, reference: LocalReference): Promise<void> {
    const pulled = `${source}${reference.asked.includes(':') ? '@' : ':'}${reference.asked}`;
    const query = { repo: reference.repository, tag: reference.version };
    const tagged = await unlessReply(this.#client.call('POST', `/images/${pulled}/tag`, { query }), 404);
    // Another pull of the same image has just done it.
    if (tagged === undefined && !(await imagePresent(this.#client, reference)))
      throw new EngineError('unavailable', `The image ${reference.full} was pulled, and is gone again.`);
    await unlessReply(this.#client.call('DELETE', `/images/${pulled}`, { query: { noprune: true } }), 404, 409);
  }
}

/** That a Docker asks the registry beside by TLS alone, though its address is a loopback one: from 29.10 on. */
function tlsOnly(source: string, cause: unknown): EngineError {
  const address = source.slice(0, source.indexOf('/'));
  const what = `Docker asks the platform's registry at ${address} by TLS only.`;
  const help = 'Add "127.0.0.0/8" to "insecure-registries" in its daemon.json and restart it.';
  return new EngineError('refused', `${what} ${help}`, { cause });
}

async function credentials(
  reference: ImageReference,
  auth: EnsureImageOptions['auth'],
): Promise<RegistryAuth | undefined> {
  try {
    return await auth?.();
  } catch (cause) {
    if (cause instanceof EngineError) throw cause;
    throw new EngineError('unavailable', `There is no permission to pull ${reference.full} to be had.`, { cause });
  }
}

/** Docker's header for who pulls (Engine API, "Authentication": base64url of JSON). Without padding it means nobody. */
export function authHeader(reference: ImageReference, auth: RegistryAuth | undefined): Record<string, string> {
  if (auth === undefined) return {};
  const serveraddress = reference.repository.slice(0, reference.repository.indexOf('/'));
  const value = 'registryToken' in auth ? { registrytoken: auth.registryToken } : { ...auth, serveraddress };
  const text = Buffer.from(JSON.stringify(value)).toString('base64url');
  return { 'x-registry-auth': text.padEnd(Math.ceil(text.length / 4) * 4, '=') };
}

/** Whether the engine has the image. */
export async function imagePresent(client: DockerClient, reference: ImageReference): Promise<boolean> {
  return (await unlessReply(client.call('GET', `/images/${reference.full}/json`), 404)) !== undefined;
}
