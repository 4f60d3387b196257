/** The real command line as a child process, and a small client for what it serves. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { z } from 'zod';
import { withTimeout } from '../../../lib/waiting.ts';
import { leftInDocker } from '../engine/docker-client.ts';
import { programArguments } from '../program.ts';
import { until } from '../until.ts';
import { useDataFor } from './prepared-data.ts';

export interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Tests change more in a minute than people do, and few of them push images. */
const TEST_ENVIRONMENT = { CHANGES_BURST: '100000', REGISTRY: 'off' };

/** For a start that builds the base image first, on a slow and busy machine. */
const START_MS = 900_000;

/** Runs `troupe ...` to its end. */
export async function troupe(
  args: readonly string[],
  options: { env?: Record<string, string>; input?: string; program?: readonly string[] | undefined } = {},
): Promise<Finished> {
  const child = spawn(process.execPath, [...(options.program ?? programArguments()), ...args], {
    env: { ...process.env, ...options.env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  // A program may end without reading what it is given: its output and its code say what came of that.
  child.stdin.on('error', () => {});
  child.stdin.end(options.input ?? '');
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk));
  const [code] = await once(child, 'close');
  return { code: typeof code === 'number' ? code : null, stdout, stderr };
}

/** The program and its arguments that run `troupe ...`. `preload`: arguments of node that load something before it. */
export function troupeCommand(args: readonly string[], preload: readonly string[] = []): string[] {
  return [process.execPath, ...programArguments(preload), ...args];
}

/** Starts `troupe ...` as a child process whose output the caller reads. */
export function spawnTroupe(args: readonly string[], env: Record<string, string> = {}, program = programArguments()) {
  return spawn(process.execPath, [...program, ...args], {
    env: { ...TEST_ENVIRONMENT, ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** Adds users, each a name and a password, to the platform whose data is in `data`. */
export async function addUsers(
  users: readonly (readonly [name: string, password: string])[],
  data: string,
  env: Record<string, string>,
): Promise<void> {
  for (const [name, password] of users) {
    const added = await troupe(['users', 'add', name, '--data', data], { env, input: password });
    assert.equal(added.code, 0, added.stderr);
  }
}

/** The first line of a program's output; undefined when it ended before, or said nothing for `timeoutMs`. */
export async function firstLine(
  child: { readonly stdout: Readable },
  timeoutMs = 300_000,
): Promise<string | undefined> {
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const first = await withTimeout(lines.next(), timeoutMs, () => undefined);
  return first?.done === false ? first.value : undefined;
}

const readySchema = z.object({
  ready: z.literal(true),
  urls: z.object({
    ...{
      auth: z.url(),
      compute: z.url(),
      net: z.url(),
      monitor: z.url(),
      notify: z.url(),
      http: z.url(),
      https: z.url(),
    },
    /** Null when it was not built. */
    console: z.url().nullable(),
  }),
  ssh: z.object({ host: z.string(), port: z.number() }),
  domain: z.string(),
  admin: z.object({ username: z.string(), password: z.string().nullable() }),
});

/** A platform that runs as a child process. */
export interface RunningPlatform {
  readonly ready: z.output<typeof readySchema>;
  readonly child: ChildProcess;
  /** All of stderr so far. */
  log(): string;
  /** SIGTERM, and the exit code. */
  stop(): Promise<number | null>;
  /** SIGKILL. */
  kill(): Promise<void>;
}

/** Starts `troupe up --json` on free ports and waits until it serves. Throws with its log when it ends instead. */
export async function startPlatform(options: {
  data: string;
  env?: Record<string, string>;
  args?: readonly string[];
  /** What Node runs instead of this tree's own program: that of another version, for comparisons. */
  program?: string[] | undefined;
  /** Whether it makes its database itself. Otherwise the runner has made it. */
  fromNothing?: boolean;
}): Promise<RunningPlatform> {
  if (options.fromNothing !== true && options.program === undefined) await useDataFor(options.data, options.env ?? {});
  const child = spawnTroupe(
    ['up', '--json', '--data', options.data, '--port-offset', 'auto', ...(options.args ?? [])],
    options.env,
    options.program,
  );
  let log = '';
  child.stderr.on('data', (chunk: Buffer) => (log += chunk));
  const ended = once(child, 'close').then(([code]) => (typeof code === 'number' ? code : null));
  const first = await firstLine(child, START_MS);
  if (first === undefined) {
    const isLate = child.exitCode === null && child.kill('SIGTERM');
    await ended;
    throw new Error(`troupe up ${isLate ? 'was not ready in time' : 'ended before it was ready'}:\n${log}`);
  }
  let told = false;
  void ended.then((code) => {
    // A test sees only that its connections broke: say why.
    if (!told) process.stderr.write(`the platform ended by itself (code ${code}):\n${log.slice(-4000)}\n`);
  });
  const ready = readySchema.parse(JSON.parse(first));
  return {
    ready,
    child,
    log: () => log,
    stop: () => {
      told = true;
      child.kill('SIGTERM');
      return ended;
    },
    kill: async () => {
      told = true;
      child.kill('SIGKILL');
      await ended;
    },
  };
}

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly json: Record<string, unknown>;
}

/** One request with a JSON body; the reply's body is parsed when it is JSON. Rejects when `timeoutMs` is given and over. */
export async function request(
  method: string,
  url: string,
  options: { token?: string; body?: unknown; raw?: string; timeoutMs?: number; headers?: Record<string, string> } = {},
): Promise<Reply> {
  const body = options.raw ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  const response = await fetch(url, {
    method,
    headers: { ...options.headers, ...(options.token && { authorization: `Bearer ${options.token}` }) },
    ...(body === undefined ? {} : { body }),
    ...(options.timeoutMs === undefined ? {} : { signal: AbortSignal.timeout(options.timeoutMs) }),
  });
  const text = await response.text();
  const json: unknown = text.startsWith('{') || text.startsWith('[') ? JSON.parse(text) : {};
  return {
    status: response.status,
    headers: response.headers,
    json: z.record(z.string(), z.unknown()).catch({ list: json }).parse(json),
  };
}

/** Logs in and returns the token. */
export async function logIn(authUrl: string, username: string, password: string): Promise<string> {
  const { status, json } = await request('POST', `${authUrl}/api/login`, { body: { username, password } });
  assert.equal(status, 200, JSON.stringify(json));
  return z.string().parse(json.token);
}

/** Deletes all containers of the tokens' users and waits until Docker has forgotten them. */
export async function deleteAll(computeUrl: string, ...tokens: string[]): Promise<void> {
  for (const token of tokens) {
    const { json } = await request('GET', `${computeUrl}/compute/containers`, { token });
    for (const { id } of z.array(z.object({ id: z.string() })).parse(json.containers)) {
      await request('DELETE', `${computeUrl}/compute/containers/${id}`, { token });
      await until(async () => (await leftInDocker(id)) === 0, { what: `Docker forgets ${id}`, timeoutMs: 60_000 });
    }
  }
}
