/** Tools for what is inside of a container: commands, files, its log. */
import { z } from 'zod';
import { TroupeError } from '../../../client/index.ts';
import { readFiles, writeFiles } from '../../../proto/compute/files.ts';
import { runCommand } from './commands.ts';
import { containerField, idOf, secondsField } from './fields.ts';
import { type Tool, type ToolContext, tool } from './tool.ts';

const KB = 1024;
/** Bytes of an output, of a part of a file, of a file that is written: a result is read by a model as a whole. */
const DEFAULT_BYTES = 32 * KB;
const MAX_BYTES = 256 * KB;
const MAX_LINES = 1000;
const MAX_ENTRIES = 1000;

const pathField = z.string().min(1).max(1024).describe('Absolute path in the container');
const bytesField = z.int().min(1).max(MAX_BYTES).default(DEFAULT_BYTES);
const encodingField = z.enum(['utf-8', 'base64']).default('utf-8');
const inside = z.strictObject({ container: containerField });
const countSchema = z.int().min(0);

export const INSIDE_TOOLS: readonly Tool[] = [
  tool({
    name: 'run_command',
    title: 'Run a command',
    description:
      'Runs a command in a running container, as root, and waits for its end. Of each output the last max_bytes are ' +
      'kept. A command that is to outlive the call must be started in the background, with its output in a file.',
    effect: 'acts',
    input: inside.extend({
      command: z
        .array(z.string())
        .min(1)
        .max(256)
        .describe('One element is a script for /bin/sh; several are a program and its arguments'),
      stdin: z.string().max(MAX_BYTES).default('').describe('What it reads'),
      timeout_seconds: secondsField('After this time the command is ended'),
      max_bytes: bytesField.describe('Bytes kept of each output'),
    }),
    output: z.object({
      exit_code: z.int().nullable().describe('As a shell has it; null if the time was over'),
      timed_out: z.boolean(),
      stdout: z.string(),
      stderr: z.string(),
      stdout_bytes: countSchema.describe('Bytes that it wrote'),
      stderr_bytes: countSchema,
      truncated: z.boolean().describe('Whether the beginning of an output is missing'),
    }),
    async run({ container, command, stdin, timeout_seconds, max_bytes }, context) {
      const id = await idOf(container, context);
      const limits = { timeoutMs: timeout_seconds * 1000, maxBytes: max_bytes };
      const { code, stdout, stderr } = await runCommand({ id, command, input: stdin, ...limits }, context);
      return {
        exit_code: code ?? null,
        timed_out: code === undefined,
        stdout: stdout.text(),
        stderr: stderr.text(),
        stdout_bytes: stdout.bytes,
        stderr_bytes: stderr.bytes,
        truncated: stdout.isCut || stderr.isCut,
      };
    },
  }),
  tool({
    name: 'read_file',
    title: 'Read a file',
    description: 'Reads a file of a container, or a part of it. `more` says whether the file goes on after this part.',
    effect: 'reads',
    input: inside.extend({
      path: pathField,
      offset: countSchema.default(0).describe('Where the part begins, in bytes'),
      max_bytes: bytesField.describe('Longest part'),
      encoding: encodingField.describe('How content is given; base64 for what is no text'),
    }),
    output: z.object({
      path: z.string(),
      content: z.string(),
      encoding: z.enum(['utf-8', 'base64']),
      offset: countSchema,
      bytes: countSchema.describe('Length of this part'),
      more: z.boolean(),
    }),
    async run({ container, path, offset, max_bytes, encoding }, context) {
      const bytes = await readPart(await idOf(container, context), path, [offset, max_bytes + 1], context);
      const part = bytes.subarray(0, max_bytes);
      const content = Buffer.from(part).toString(encoding);
      return { path, content, encoding, offset, bytes: part.length, more: bytes.length > max_bytes };
    },
  }),
  tool({
    name: 'write_file',
    title: 'Write a file',
    description: 'Writes a file of a container, in place of one that is there. Missing folders are made.',
    effect: 'destroys',
    input: inside.extend({
      path: pathField,
      content: z.string().max(4 * MAX_BYTES),
      encoding: encodingField.describe('How content is given; base64 for what is no text'),
      mode: z
        .string()
        .regex(/^0?[0-7]{3}$/)
        .optional()
        .describe('Permissions such as 755'),
    }),
    output: z.object({ path: z.string(), bytes: countSchema }),
    async run({ container, path, content, encoding, mode }, context) {
      const id = await idOf(container, context);
      const body = Uint8Array.from(Buffer.from(content, encoding));
      const query = new URLSearchParams({ path, ...(mode === undefined ? undefined : { mode }) });
      const { client, signal } = context;
      await client.transfer('PUT', filesPath(writeFiles.path, id, query), { body, signal });
      return { path, bytes: body.length };
    },
  }),
  tool({
    name: 'list_files',
    title: 'List files',
    description: `Lists the entries of a folder in a running container, at most ${MAX_ENTRIES}; of a file, itself.`,
    effect: 'reads',
    input: inside.extend({ path: pathField }),
    output: z.object({
      path: z.string(),
      entries: z.array(
        z.object({
          name: z.string(),
          type: z.enum(['file', 'folder', 'link', 'other']),
          size: countSchema,
          mode: z.string().describe('Permissions such as 755'),
          modified_at: z.iso.datetime(),
        }),
      ),
      truncated: z.boolean(),
    }),
    async run({ container, path }, context) {
      const found = await entriesOf(await idOf(container, context), path, context);
      return { path, entries: found.slice(0, MAX_ENTRIES), truncated: found.length > MAX_ENTRIES };
    },
  }),
  tool({
    name: 'read_logs',
    title: 'Read the log',
    description:
      'The newest lines that a container printed, also of one that stopped or failed; with `since`, only those after ' +
      'that stamp.',
    effect: 'reads',
    input: inside.extend({
      lines: z.int().min(1).max(MAX_LINES).default(100).describe('Most lines'),
      since: z.string().max(64).optional().describe('RFC 3339 time'),
    }),
    output: z.object({
      lines: z.array(z.object({ stamp: z.string(), text: z.string() })),
      truncated: z.boolean().describe('Whether there are older lines that a bound left out'),
    }),
    run: async ({ container, lines, since }, context) =>
      logLines(await idOf(container, context), lines, since, context),
  }),
];

const filesPath = (path: string, id: string, query: URLSearchParams) =>
  `${path.replace('{id}', encodeURIComponent(id))}?${query}`;

async function readPart(
  id: string,
  path: string,
  [offset, length]: readonly [number, number],
  { client, signal }: ToolContext,
): Promise<Uint8Array> {
  const headers = { range: `bytes=${offset}-${offset + length - 1}` };
  const address = filesPath(readFiles.path, id, new URLSearchParams({ path }));
  try {
    const { status, bytes = new Uint8Array() } = await client.transfer('GET', address, { headers, signal });
    return status === 206 ? bytes : bytes.subarray(offset, offset + length);
  } catch (error) {
    // At its end, and of an empty file, there is no part.
    if (error instanceof TroupeError && error.code === 'bad_range') return new Uint8Array();
    throw error;
  }
}

/** What coreutils and busybox both know: mode with type in hexadecimal, size, seconds, name. */
const LIST = `f='%f %s %Y %n'
if [ -d "$1" ]; then cd -- "$1" && find . -mindepth 1 -maxdepth 1 -exec stat -c "$f" -- {} +
else stat -c "$f" -- "$1"; fi`;
const ENTRY = /^([0-9a-f]+) (\d+) (-?\d+) (.*)$/s;
const TYPES: Readonly<Record<number, 'file' | 'folder' | 'link'>> = { 32768: 'file', 16384: 'folder', 40960: 'link' };

async function entriesOf(id: string, path: string, context: ToolContext) {
  const limits = { timeoutMs: 20_000, maxBytes: 2 * MAX_BYTES };
  const request = { id, command: ['/bin/sh', '-c', LIST, 'sh', path], input: '', ...limits };
  const { code, stdout, stderr } = await runCommand(request, context);
  const lines = stdout.text().split('\n');
  const entries = lines.flatMap((line) => {
    const [, mode = '', size, seconds, name = ''] = ENTRY.exec(line) ?? [];
    if (size === undefined) return [];
    const bits = Number.parseInt(mode, 16);
    return {
      name: name.slice(name.lastIndexOf('/') + 1),
      type: TYPES[bits & 0xf000] ?? ('other' as const),
      size: Number(size),
      mode: (bits & 0o7777).toString(8).padStart(3, '0'),
      modified_at: new Date(Number(seconds) * 1000).toISOString(),
    };
  });
  if (code === 0 || entries.length > 0) return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  const why = stderr.text().trim().split('\n').at(-1) ?? '';
  throw new TroupeError('not_found', `${path} cannot be listed: ${why || 'it takes too long'}`, { status: 404 });
}

/** The newest lines, as many as fit. */
async function logLines(id: string, most: number, since: string | undefined, { client, signal }: ToolContext) {
  const all = await client.readLog({ id, since, tail: most + 1 }, { signal });
  let bytes = 0;
  const newest = all.slice(-most).reverse();
  const beyond = newest.findIndex(({ text }) => {
    bytes += Buffer.byteLength(text);
    return bytes > MAX_BYTES;
  });
  const lines = (beyond < 0 ? newest : newest.slice(0, beyond)).reverse();
  return { lines, truncated: lines.length < all.length };
}
