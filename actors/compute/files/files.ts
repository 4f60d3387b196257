/** Transfers of files: bytes go straight between the request and the engine, at the pace of the slower. */
import { Readable } from 'node:stream';
import { fileBegin, fileEnd, tar } from '../../../lib/tar.ts';
import { TarError } from '../../../lib/tar-scanner.ts';
import { DEFAULT_FILES_MAX_MB, readFiles, removeFiles, writeFiles } from '../../../proto/compute/files.ts';
import type { CallOf, TransferReply, Upload } from '../../../proto/endpoint.ts';
import { type ErrorCode, Refusal } from '../../../proto/errors.ts';
import { EngineError } from '../../../proto/ports/engine.ts';
import {
  type ContainerFiles,
  FileError,
  type FileErrorCode,
  type FileStat,
  PLATFORM_FOLDER,
} from '../../../proto/ports/files.ts';
import { transferHandler } from '../../service/start-service.ts';
import type { ComputeDeps } from '../deps.ts';
import { Transfers } from '../transfers.ts';
import { atMost, checkedTar, contentOf, tooLarge } from './archives.ts';
import { withoutTree } from './left-out.ts';
import { readRange } from './range-rules.ts';

const MB = 1024 * 1024;
const NEW_FILE_MODE = 0o644;
const NEW_FOLDER_MODE = 0o755;

const OK: TransferReply = { value: { status: 'ok' } };
const HEADERS = [
  ['cache-control', 'no-store'],
  ['x-content-type-options', 'nosniff'],
] as const;

const REFUSALS: Readonly<Record<FileErrorCode, ErrorCode>> = {
  missing: 'not_found',
  is_folder: 'is_folder',
  no_folder: 'no_folder',
  read_only: 'read_only',
  no_space: 'no_space',
  refused: 'conflict',
};

/** Asks the container's actor whether the caller may, which also writes changes down. */
type CallContainer = (
  endpoint: typeof readFiles | typeof writeFiles | typeof removeFiles,
  call: CallOf<typeof readFiles> | CallOf<typeof writeFiles> | CallOf<typeof removeFiles>,
) => Promise<unknown>;

/** The handlers of the three endpoints. */
export function fileTransfers(deps: Pick<ComputeDeps, 'engine' | 'filesMaxMb'>, callContainer: CallContainer) {
  const files = deps.engine.fileAccess;
  const limit = (deps.filesMaxMb ?? DEFAULT_FILES_MAX_MB) * MB;
  const transfers = new Transfers();
  return [
    transferHandler(readFiles, async (call, upload, caller) => {
      await callContainer(readFiles, call);
      return transfers.reading(caller, () => orRefused(() => read(files, limit, call, upload)));
    }),
    transferHandler(writeFiles, async (call, upload, caller) => {
      const length = call.query.archive === undefined ? lengthOf(upload, limit) : undefined;
      await callContainer(writeFiles, call);
      return transfers.during(caller, () =>
        orRefused(() =>
          length === undefined ? writeArchive(files, limit, call, upload) : writeFile(files, length, call, upload),
        ),
      );
    }),
    transferHandler(removeFiles, async (call, { signal }, caller) => {
      const { path } = call.query;
      if (path === '/') throw new Refusal('conflict', { message: 'All files of a container cannot be removed.' });
      await callContainer(removeFiles, call);
      return transfers.during(caller, () =>
        orRefused(async () => {
          mustBeChangeable(path, await found(files, call.params.id, path));
          await files.remove(call.params.id, path, signal);
          return OK;
        }),
      );
    }),
  ];
}

async function read(
  files: ContainerFiles,
  limit: number,
  { params: { id }, query: { path, archive } }: CallOf<typeof readFiles>,
  upload: Upload,
): Promise<TransferReply> {
  const { signal } = upload;
  if (isPlatforms(path)) throw keptFromAll(path);
  const stat = await found(files, id, path);
  if (isPlatforms(stat.path)) throw keptFromAll(path);
  if (archive === 'tar') {
    const source = await files.read(id, stat.path, signal);
    const bytes = atMost(holdsPlatforms(stat.path) ? withoutTree(source, PLATFORM_FOLDER) : source, limit);
    return { status: 200, headers: [...HEADERS, ['content-type', 'application/x-tar']], bytes };
  }
  if (stat.isFolder) throw new Refusal('is_folder', { message: `${path} is a folder: ask for it with "archive=tar".` });
  if (stat.size > limit) throw tooLarge(limit);
  const etag = `"${stat.size.toString(16)}-${stat.modifiedMs.toString(16)}"`;
  const about = [
    ...HEADERS,
    ['content-type', 'application/octet-stream'],
    ['accept-ranges', 'bytes'],
    ['etag', etag],
    ['last-modified', new Date(stat.modifiedMs).toUTCString()],
  ] as const;
  const mayRange = upload.header('if-range') === undefined || upload.header('if-range') === etag;
  const range = mayRange ? readRange(upload.header('range'), stat.size) : undefined;
  if (range === 'none') throw new Refusal('bad_range', { message: `The file has ${stat.size} bytes.` });
  const { begin, end } = range ?? { begin: 0, end: stat.size };
  const bytes = begin === end ? Readable.from([]) : contentOf(await files.read(id, stat.path, signal), begin, end);
  if (range === undefined) return { status: 200, headers: about, bytes };
  return { status: 206, headers: [...about, ['content-range', `bytes ${begin}-${end - 1}/${stat.size}`]], bytes };
}

async function writeFile(
  files: ContainerFiles,
  length: number,
  { params: { id }, query: { path, mode } }: CallOf<typeof writeFiles>,
  upload: Upload,
): Promise<TransferReply> {
  const stat = await files.stat(id, path);
  mustBeChangeable(path, stat);
  if (stat?.isFolder || path === '/') throw new Refusal('is_folder', { message: `${path} is a folder.` });
  const target = (stat?.path ?? path).slice(1);
  const body = upload.stream();
  const head = fileBegin(target, mode ?? stat?.mode ?? NEW_FILE_MODE, length, Math.floor(Date.now() / 1000));
  const archive = Readable.from(inArchive(head, body, length));
  await files.write(id, '/', archive, upload.signal);
  return OK;
}

async function* inArchive(head: Buffer, body: Readable, length: number): AsyncGenerator<Buffer> {
  yield head;
  let size = 0;
  for await (const chunk of body) {
    const bytes = Buffer.from(chunk);
    size += bytes.length;
    yield bytes;
  }
  if (size !== length) throw new FileError('refused', 'the file is not as long as was announced');
  yield fileEnd(length);
}

async function writeArchive(
  files: ContainerFiles,
  limit: number,
  { params: { id }, query: { path } }: CallOf<typeof writeFiles>,
  upload: Upload,
): Promise<TransferReply> {
  const { signal } = upload;
  const stat = await files.stat(id, path);
  mustBeChangeable(path, stat);
  if (stat !== undefined && !stat.isFolder) throw new Refusal('no_folder', { message: `${path} is not a folder.` });
  if (stat === undefined) {
    const folder = tar(
      [{ kind: 'directory', path: path.slice(1), mode: NEW_FOLDER_MODE }],
      Math.floor(Date.now() / 1000),
    );
    await files.write(id, '/', Readable.from([folder]), signal);
  }
  const checked = checkedTar(upload.stream(), limit);
  try {
    await files.write(id, stat?.path ?? path, checked, signal);
  } catch (error) {
    const cause = checked.errored;
    if (cause instanceof TarError)
      throw new Refusal('invalid_request', { message: `The archive is not taken: ${cause.message}.` });
    throw cause instanceof Refusal ? cause : error;
  }
  return OK;
}

/** Whether a path is in the platform's own folder. */
function isPlatforms(path: string): boolean {
  return path === PLATFORM_FOLDER || path.startsWith(`${PLATFORM_FOLDER}/`);
}

/** Whether the platform's folder is somewhere below a path. */
function holdsPlatforms(path: string): boolean {
  return path === '/' || PLATFORM_FOLDER.startsWith(`${path}/`);
}

function keptFromAll(path: string): Refusal {
  return new Refusal('forbidden', { message: `${path} is the platform's own: it is not read by this way.` });
}

/** Refuses `read_only` for what is the platform's own, whatever the engine would do. */
function mustBeChangeable(path: string, stat: FileStat | undefined): void {
  if (isPlatforms(path) || (stat !== undefined && isPlatforms(stat.path)))
    throw new Refusal('read_only', { message: `Nothing can be changed at ${path}: it is the platform's.` });
}

/** What is at a path. Refuses `not_found`. */
async function found(files: ContainerFiles, id: string, path: string): Promise<FileStat> {
  const stat = await files.stat(id, path);
  if (stat === undefined) throw new FileError('missing', `There is nothing at ${path}.`);
  return stat;
}

/** The length that a file is announced with. Refuses `invalid_request` without one, and `body_too_large`. */
function lengthOf(upload: Upload, limit: number): number {
  const text = upload.header('content-length');
  if (text === undefined && upload.header('transfer-encoding') !== undefined)
    throw new Refusal('invalid_request', { message: 'A file needs a Content-Length.' });
  const length = Number(text ?? 0);
  if (length > limit) throw tooLarge(limit);
  return length;
}

async function orRefused(work: () => Promise<TransferReply>): Promise<TransferReply> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof FileError) throw new Refusal(REFUSALS[error.code], { message: error.message, cause: error });
    if (!(error instanceof EngineError)) throw error;
    if (error.code === 'unavailable') throw new Refusal('unavailable', { cause: error });
    if (error.code === 'not_running') throw new Refusal('not_running', { cause: error });
    const message = error.code === 'not_found' ? 'The container has no files yet: it is being made.' : error.message;
    throw new Refusal('conflict', { message, cause: error });
  }
}
