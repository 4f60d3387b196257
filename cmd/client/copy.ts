/** `troupe cp`: files and folders, between here and a container. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, rename, rm, stat } from 'node:fs/promises';
import { basename, join, posix } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { TroupeError } from '../../client/index.ts';
import type { ByteAnswer } from '../../client/node/index.ts';
import { linksOut } from './deploy/files.ts';
import { leadingOut } from './deploy/left.ts';
import { ClientFailure } from './failure.ts';
import { containerOf } from './names.ts';
import type { Output } from './output.ts';
import { type FileSession, openFiles } from './own-client.ts';
import type { ClientCommandOptions } from './session.ts';

export interface CopyOptions extends ClientCommandOptions {
  readonly recursive?: boolean;
}

/** What a path of a container is. */
type PathKind = 'file' | 'folder' | 'missing';

/** What was copied. */
interface Copied {
  readonly from: string;
  readonly to: string;
}

/** Copies files: either the last path, or all others, are `NAME:PATH` of one container. */
export async function copy(paths: readonly string[], options: CopyOptions): Promise<void> {
  const remote = paths.map((path) => /^([^/:.][^/:]*):(.*)$/s.exec(path));
  const [named] = remote.flatMap((match) => match?.[1] ?? []);
  const destination = paths.at(-1);
  if (named === undefined || destination === undefined || paths.length < 2)
    throw new ClientFailure('usage', 'Name a container on one side: `troupe cp FILE NAME:PATH`.');
  if (remote.some((match) => match !== null && match[1] !== named))
    throw new ClientFailure('usage', 'From one container to another it takes two commands.');
  const isUpload = remote.at(-1) !== null;
  if (remote.slice(0, -1).some((match) => (match === null) !== isUpload))
    throw new ClientFailure('usage', 'One side is here, and the other in a container: `troupe cp FILE NAME:PATH`.');

  const session = openFiles(options);
  const side = new ContainerSide(session, await containerOf(session, named));
  const isMany = paths.length > 2;
  const isRecursive = options.recursive === true;
  const copied: Copied[] = [];
  for (const [at, path] of paths.slice(0, -1).entries()) {
    const inside = (isUpload ? remote.at(-1) : remote[at])?.[2] ?? '';
    const done = isUpload
      ? await side.send(path, inside, { isRecursive, isMany })
      : await side.fetch(inside, destination, { isRecursive, isMany });
    copied.push(done);
    if (!session.out.json) session.out.note(`${done.from} is copied to ${done.to}.`);
  }
  if (session.out.json) session.out.line(JSON.stringify({ copied }));
}

interface CopyRules {
  readonly isRecursive: boolean;
  /** Several are copied: the destination is a folder. */
  readonly isMany: boolean;
}

/** The paths of one container. */
class ContainerSide {
  readonly #files: ReturnType<typeof openFiles>['files'];
  readonly #id: string;
  readonly #name: string;
  readonly #out: Output;

  constructor({ files, out }: FileSession, { id, name }: { readonly id: string; readonly name: string }) {
    this.#files = files;
    this.#out = out;
    this.#id = id;
    this.#name = name;
  }

  async send(local: string, inside: string, { isRecursive, isMany }: CopyRules): Promise<Copied> {
    const found = await stat(local).catch((cause: unknown) => {
      throw new ClientFailure('missing', `There is no ${local}.`, { cause });
    });
    if (found.isDirectory() && !isRecursive) throw isFolder(local);
    const wanted = absolute(inside);
    const kind = await this.#kindOf(wanted);
    const isInto = kind === 'folder' || isMany || inside.endsWith('/') || inside === '';
    const path = isInto ? posix.join(wanted, basename(join(process.cwd(), local))) : wanted;
    if (!found.isDirectory()) {
      const mode = (found.mode & 0o777).toString(8);
      await this.#request('PUT', { path, mode }, { body: createReadStream(local), length: found.size });
    } else {
      if (kind === 'file') throw new ClientFailure('state', `${this.#name}:${wanted} is a file, and no folder.`);
      const archiver = tar(['-cf', '-', ...(await this.#without(local)), '-C', local, '.']);
      await Promise.all([
        this.#request('PUT', { path, archive: 'tar' }, { body: archiver.stdout, length: undefined }),
        ended(archiver),
      ]);
    }
    return { from: local, to: `${this.#name}:${path}` };
  }

  /** Options of tar that leave out, and tell of, what would end the whole upload. */
  async #without(local: string): Promise<string[]> {
    const links = await linksOut(local);
    if (links.length > 0) this.#out.note(leadingOut(links));
    return links.map(({ path }) => `--exclude=./${path.replace(/[[\]*?\\]/g, '\\$&')}`);
  }

  async fetch(inside: string, destination: string, { isRecursive, isMany }: CopyRules): Promise<Copied> {
    const path = absolute(inside);
    const isHere = await stat(destination).then(
      (found) => found.isDirectory(),
      () => false,
    );
    if (isMany && !isHere) throw new ClientFailure('usage', `${destination} is no folder, but several are copied.`);
    const target = isHere ? join(destination, posix.basename(path) || this.#name) : destination;
    const from = `${this.#name}:${path}`;
    if ((await this.#kindOf(path)) === 'folder') {
      if (!isRecursive) throw isFolder(from);
      const { body } = await this.#request('GET', { path, archive: 'tar' });
      await mkdir(target, { recursive: true });
      const extractor = tar(['-xf', '-', '-C', target, '--strip-components=1', '--no-same-owner']);
      await Promise.all([pipeline(body, extractor.stdin), ended(extractor)]);
      return { from, to: target };
    }
    const { body } = await this.#request('GET', { path });
    // Under its name only when it is whole.
    const part = `${target}.part`;
    try {
      await pipeline(body, createWriteStream(part));
      await rename(part, target);
    } catch (cause) {
      await rm(part, { force: true });
      throw cause instanceof TroupeError
        ? cause
        : new ClientFailure('failed', `${target}: ${String(cause)}`, { cause });
    }
    return { from, to: target };
  }

  async #kindOf(path: string): Promise<PathKind> {
    try {
      const { body } = await this.#request('GET', { path }, { headers: { range: 'bytes=0-0' } });
      body.destroy();
      return 'file';
    } catch (error) {
      if (!(error instanceof TroupeError)) throw error;
      if (error.code === 'is_folder') return 'folder';
      // An empty file has no first byte.
      if (error.code === 'bad_range') return 'file';
      if (error.status === 404) return 'missing';
      throw error;
    }
  }

  #request(
    method: string,
    query: Readonly<Record<string, string>>,
    more: Parameters<ReturnType<typeof openFiles>['files']>[2] = {},
  ): Promise<ByteAnswer> {
    const path = `/compute/containers/${encodeURIComponent(this.#id)}/files?${new URLSearchParams(query)}`;
    return this.#files(method, path, more);
  }
}

/** A path of a container, from the home of root. */
function absolute(inside: string): string {
  const path = posix.normalize(posix.join('/', inside.startsWith('/') ? '' : 'root', inside));
  return path.length > 1 ? path.replace(/\/$/, '') : path;
}

function isFolder(path: string): ClientFailure {
  return new ClientFailure('usage', `${path} is a folder: \`troupe cp -r\` copies it with all in it.`);
}

/** The system's tar, which every system with a shell has. */
export function tar(args: readonly string[]) {
  return spawn('tar', args, { stdio: ['pipe', 'pipe', 'inherit'] });
}

/** Rejects with ClientFailure when it failed. */
export async function ended(child: ReturnType<typeof tar>): Promise<void> {
  const [code] = await once(child, 'close');
  if (code !== 0) throw new ClientFailure('failed', 'tar failed: see above.');
}
