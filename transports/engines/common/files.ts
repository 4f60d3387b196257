/** Files of a container that runs, by commands in it: stat, tar and rm, of coreutils or busybox. */

import { type Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { EngineError } from '../../../proto/ports/engine.ts';
import { type ContainerFiles, FileError, type FileErrorCode, type FileStat } from '../../../proto/ports/files.ts';
import type { RunningCommand } from '../../../proto/ports/shell.ts';
import { cleanReason } from './calls.ts';

/** Begins a command. */
export type RunCommand = (id: string, command: readonly string[], signal: AbortSignal) => Promise<RunningCommand>;

const MAX_SAID_CHARS = 4096;
const MISSING = 44;
const never = new AbortController().signal;

const STAT_SCRIPT = `
[ -e "$1" ] || exit ${MISSING}
real=$(readlink -f -- "$1") || exit 1
[ -d "$real" ] && kind=d || kind=f
stat -c "%s %a %Y $kind" -- "$real" && printf "%s" "$real"`;

/**
 * Unpacks what comes in parts: a line with the number of bytes, and so many bytes; 0 is the end. Clusters before 1.30
 * cannot be told that the input of a command has ended, and tar reads its input to the end.
 */
const UNPACK_SCRIPT = `
while read -r n && [ "$n" != 0 ]; do dd bs="$n" count=1 iflag=fullblock 2>/dev/null || exit; done |
  exec tar -xf - -C "$1"`;

/** Writes what passes in the parts that UNPACK_SCRIPT reads. */
const inParts = (): Transform =>
  new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      done(null, chunk.length === 0 ? null : Buffer.concat([Buffer.from(`${chunk.length}\n`), chunk]));
    },
    flush: (done) => done(null, Buffer.from('0\n')),
  });

const REASONS: readonly (readonly [RegExp, FileErrorCode])[] = [
  [/no space left|disk quota exceeded/i, 'no_space'],
  [/read-only|marked read-?only/i, 'read_only'],
  [/cannot overwrite|is a directory|file exists/i, 'is_folder'],
  [/not a directory/i, 'no_folder'],
  [/no such file|could not find the file/i, 'missing'],
];

/** What an engine or a program said of a path, as an error. */
export function fileError(path: string, said: string, cause?: unknown): FileError {
  const code = REASONS.find(([pattern]) => pattern.test(said))?.[1] ?? 'refused';
  const text = {
    missing: `There is nothing at ${path}.`,
    is_folder: `A folder is in the place of a file at ${path}.`,
    no_folder: `Something on the way to ${path} is not a folder.`,
    read_only: `Nothing can be changed at ${path}: it is read-only.`,
    no_space: 'No space is left in the container.',
    refused: `The container refuses: ${cleanReason(said) || 'it does not say why'}`,
  }[code];
  return new FileError(code, text, { cause });
}

/** All files by commands. */
export function filesByCommands(run: RunCommand): ContainerFiles {
  return {
    stat: async (id, path) => {
      const { code, out, said } = await outcome(await run(id, ['sh', '-c', STAT_SCRIPT, 'sh', path], never));
      if (code === MISSING) return undefined;
      if (code !== 0) throw fileError(path, said);
      return statOf(path, out);
    },
    read: async (id, path, signal) => {
      const command = await run(
        id,
        ['tar', '-cf', '-', '-C', parentOf(path), '--', path.split('/').pop() || '.'],
        signal,
      );
      command.stdin.end();
      const said = heard(command.stderr);
      const { stdout } = command;
      // What it was not whole for is not taken for whole.
      void command.ended.then(({ code }) => {
        if (code !== 0 && code !== null) stdout.emit('error', fileError(path, said()));
      });
      stdout.once('close', () => command.close());
      return stdout;
    },
    write: async (id, folder, archive, signal) => {
      const command = await run(id, ['sh', '-c', UNPACK_SCRIPT, 'sh', folder], signal);
      const said = heard(command.stderr);
      command.stdout.resume();
      const sent = pipeline(archive, inParts(), command.stdin).then(
        () => undefined,
        (error: unknown) => {
          command.close();
          return error;
        },
      );
      const { code } = await command.ended;
      // It may end before it has read all: what is behind the end of an archive.
      if (code === 0) {
        archive.resume();
        return;
      }
      archive.destroy();
      if (code !== null) throw fileError(folder, said());
      throw (await sent) ?? lost();
    },
    remove: removeByCommand(run),
  };
}

/** `ContainerFiles.remove` by a command. */
export function removeByCommand(run: RunCommand): ContainerFiles['remove'] {
  return async (id, path, signal) => {
    const { code, said } = await outcome(await run(id, ['rm', '-rf', '--', path], signal));
    if (code !== 0) throw fileError(path, said);
  };
}

/** The folder that a path is in. */
function parentOf(path: string): string {
  return path.slice(0, Math.max(1, path.lastIndexOf('/')));
}

function statOf(path: string, out: string): FileStat {
  const [, size, mode, seconds, kind, real] = /^(\d+) ([0-7]+) (\d+) ([df])\n(.*)$/s.exec(out) ?? [];
  if (real === undefined) throw fileError(path, out);
  return {
    path: real,
    isFolder: kind === 'd',
    size: Number(size),
    mode: Number.parseInt(mode ?? '', 8),
    modifiedMs: Number(seconds) * 1000,
  };
}

async function outcome(command: RunningCommand): Promise<{ code: number; out: string; said: string }> {
  command.stdin.end();
  const [out, said] = [heard(command.stdout), heard(command.stderr)];
  const { code } = await command.ended;
  if (code === null) throw lost();
  return { code, out: out(), said: said() };
}

function heard(stream: Readable): () => string {
  const parts: Buffer[] = [];
  let size = 0;
  stream.on('data', (chunk: Buffer) => {
    if (size < MAX_SAID_CHARS) parts.push(chunk);
    size += chunk.length;
  });
  return () => Buffer.concat(parts).toString('utf8');
}

function lost(): EngineError {
  return new EngineError('unavailable', 'The connection to the container was lost.');
}
