/** Files of containers by Docker's archive calls, which reach those of stopped containers as well. */
import type { IncomingHttpHeaders } from 'node:http';
import { posix } from 'node:path';
import { PassThrough, pipeline, type Readable } from 'node:stream';
import { z } from 'zod';
import { jsonOf } from '../../../lib/input.ts';
import { tar } from '../../../lib/tar.ts';
import { EngineError } from '../../../proto/ports/engine.ts';
import { type ContainerFiles, FileError, type FileStat } from '../../../proto/ports/files.ts';
import { fileError, type RunCommand, removeByCommand } from '../common/files.ts';
import { type DockerClient, isReply } from './api/client.ts';
import type { Containers } from './containers.ts';
import { KEYS_FOLDER } from './naming.ts';

/** Most time for a transfer. */
const TRANSFER_MS = 3_600_000;
/** Bits of Go's file modes. */
const GO_FOLDER = 0x8000_0000;
const GO_LINK = 0x0800_0000;
const PERMISSIONS = 0o777;

const pathStat = z.object({ size: z.number(), mode: z.number(), mtime: z.string(), linkTarget: z.string() });

/** `Engine.files` on Docker. */
export function dockerFiles(client: DockerClient, containers: Containers, run: RunCommand): ContainerFiles {
  const find = async (id: string): Promise<string> => {
    const view = await containers.find(id);
    if (view === undefined) throw new EngineError('not_found', `There is no container ${id}.`);
    return view.Id;
  };
  const headOf = async (dockerId: string, path: string): Promise<z.output<typeof pathStat> | undefined> => {
    const asking = client.stream('HEAD', `/containers/${dockerId}/archive`, { query: { path } });
    const answer = await asking.catch(async (error: unknown) => {
      if (isReply(error, 404)) return undefined;
      if (!isReply(error, 400, 500)) throw error;
      // An answer to HEAD says no reason.
      const again = client.stream('GET', `/containers/${dockerId}/archive`, { query: { path } });
      return again.catch((reason: unknown) => explain(path, reason));
    });
    if (answer === undefined) return undefined;
    answer.destroy();
    return statOf(answer.headers);
  };
  /** Whether a path leads to `wanted`. Docker tells where the link at a path ends, and of no others on the way. */
  const leadsTo = async (dockerId: string, path: string, wanted: string): Promise<boolean> => {
    if (path === '/') return wanted === '/';
    const stat = await headOf(dockerId, path);
    if (stat !== undefined && isLink(stat)) return stat.linkTarget === wanted;
    const isNamed = wanted !== '/' && posix.basename(path) === posix.basename(wanted);
    return isNamed && leadsTo(dockerId, posix.dirname(path), posix.dirname(wanted));
  };
  /** Where what is no link really is, if that is in the platform's folder, which has no folders, or above it. */
  const realPath = async (dockerId: string, path: string): Promise<string> => {
    const [folder, name] = [posix.dirname(path), posix.basename(path)];
    if (path === '/') return path;
    if (await leadsTo(dockerId, folder, KEYS_FOLDER)) return posix.join(KEYS_FOLDER, name);
    for (const wanted of [KEYS_FOLDER, posix.dirname(KEYS_FOLDER)])
      if (name === posix.basename(wanted) && (await leadsTo(dockerId, folder, posix.dirname(wanted)))) return wanted;
    return path;
  };
  const look = async (dockerId: string, path: string): Promise<FileStat | undefined> => {
    const stat = await headOf(dockerId, path);
    if (stat === undefined) return undefined;
    if (isLink(stat) && stat.linkTarget !== path) return look(dockerId, stat.linkTarget);
    return {
      path: await realPath(dockerId, path),
      isFolder: stat.mode >= GO_FOLDER,
      size: stat.size,
      mode: stat.mode & PERMISSIONS,
      modifiedMs: Date.parse(stat.mtime),
    };
  };
  return {
    stat: async (id, path) => look(await find(id), path),
    read: async (id, path, signal) => {
      const query = { path };
      return client
        .stream('GET', `/containers/${await find(id)}/archive`, { query, signal, headTimeoutMs: 60_000 })
        .catch((error: unknown) => explain(path, error));
    },
    write: async (id, folder, archive, signal) => {
      const dockerId = await find(id);
      const body = behindRemark(archive);
      const query = { path: folder, noOverwriteDirNonDir: 'true' };
      const put = { query, body, signal, headTimeoutMs: TRANSFER_MS };
      const answer = await client
        .stream('PUT', `/containers/${dockerId}/archive`, put)
        .catch((error: unknown) => explain(folder, archive.errored ?? error));
      answer.resume();
    },
    remove: removeByCommand(run),
  };
}

/**
 * The archive behind an entry that Docker passes over, so that it never takes its first bytes for those of a compressed
 * one: what was looked through is what it extracts.
 */
function behindRemark(archive: Readable): Readable {
  const body = new PassThrough();
  const remark = tar([{ kind: 'file', path: 'x', mode: 0o644, data: new Uint8Array() }]).subarray(0, 512);
  remark.write('g', 156, 'latin1');
  let sum = 0;
  for (const [at, byte] of remark.entries()) sum += at >= 148 && at < 156 ? 0x20 : byte;
  remark.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  body.write(remark);
  pipeline(archive, body, () => undefined);
  return body;
}

const isLink = ({ mode }: z.output<typeof pathStat>): boolean => (mode & GO_LINK) !== 0;

function statOf(headers: IncomingHttpHeaders): z.output<typeof pathStat> {
  const text = headers['x-docker-container-path-stat'];
  const parsed = pathStat.safeParse(jsonOf(Buffer.from(String(text), 'base64').toString('utf8')));
  if (parsed.success) return parsed.data;
  throw new EngineError('unavailable', 'The container engine answered in an unknown shape.', { cause: parsed.error });
}

function explain(path: string, error: unknown): never {
  if (error instanceof FileError || !isReply(error, 400, 403, 404, 500)) throw error;
  throw fileError(path, error.reason, error);
}
