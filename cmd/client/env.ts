/** `troupe env`: the variables and secrets of a container. */
import type { CallInput, Container } from '../../client/index.ts';
import { clean } from './clean.ts';
import { parseEnvFile } from './env-file.ts';
import { ClientFailure } from './failure.ts';
import { noteHealth } from './health.ts';
import { containerOf } from './names.ts';
import type { Output } from './output.ts';
import { readInput, takeSecret } from './prompt.ts';
import { type ClientCommandOptions, openSession } from './session.ts';
import { settled } from './settled.ts';

type ContainerChange = NonNullable<CallInput<'updateContainer'>['body']>;

/** Variables of `NAME=value`. Throws ClientFailure. */
export function parsePairs(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=');
      if (at < 1) throw new ClientFailure('usage', `${clean(pair)} is no variable such as PORT=8080.`);
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
}

/** Variables of a file such as `.env`; `-`: of standard input. Throws ClientFailure, with the line that is none. */
export async function readEnvFile(out: Output, file: string): Promise<Record<string, string>> {
  const { place } = out;
  if (file !== '-' && place.machine === undefined)
    throw new ClientFailure('usage', 'By SSH no files are read: name `-`, and redirect the file of your machine.');
  const text = file === '-' || place.machine === undefined ? await readInput(place) : place.machine.readText(file);
  const called = file === '-' ? 'Standard input' : clean(file);
  const { values, notes } = parseEnvFile(text, called);
  if (Object.keys(values).length === 0) throw new ClientFailure('usage', `${called} has no line such as PORT=8080.`);
  for (const note of notes) if (!out.json) out.note(note);
  return values;
}

interface EnvOptions extends ClientCommandOptions {
  readonly wait?: boolean;
  readonly timeout: number;
}

export interface EnvFileOptions extends EnvOptions {
  readonly file?: string;
}

/** Lists the variables with their values, and the names of the secrets. */
export async function listEnv(name: string | undefined, options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { id } = await containerOf(session, name);
  const answer = await session.client.call('getSettings', { params: { id } });
  const rows = [
    ...Object.entries(answer.env).map(([key, value]) => [clean(value), 'variable', key]),
    ...answer.secrets.map((key) => ['********', 'secret', key]),
  ];
  session.out.table(answer, ['VALUE', 'KIND', 'NAME'], rows, 'It has no variables: `troupe env set`.');
}

/** Sets variables. */
export async function setEnv(name: string, pairs: readonly string[], options: EnvFileOptions): Promise<void> {
  const named = parsePairs(pairs);
  if (options.file === undefined && pairs.length === 0)
    throw new ClientFailure('usage', 'Name a variable such as PORT=8080, or a file with --file.');
  const read = options.file === undefined ? {} : await readEnvFile(openSession(options).out, options.file);
  await change(name, { env: { ...read, ...named } }, options);
}

/** Sets a secret, or all of a file. Their values are never on the command line: others on the machine see that. */
export async function setSecret(name: string, variable: string | undefined, options: EnvFileOptions): Promise<void> {
  const { out } = openSession(options);
  if ((variable === undefined) === (options.file === undefined))
    throw new ClientFailure('usage', 'Name one secret, or a file of them with --file.');
  const secrets =
    variable === undefined
      ? await readEnvFile(out, options.file ?? '-')
      : { [variable]: await readSecret(out, variable) };
  await change(name, { secrets }, options);
}

/** A secret that is typed, or a line of standard input. Throws ClientFailure. */
export async function readSecret(out: Output, variable: string): Promise<string> {
  const otherwise = 'A secret is typed at a terminal, or piped in as a line of standard input.';
  const value = await takeSecret(out, `${clean(variable)}: `, otherwise);
  if (value === '') throw new ClientFailure('usage', 'The secret is empty.');
  return value;
}

/** Removes variables and secrets. */
export async function removeEnv(name: string, variables: readonly string[], options: EnvOptions): Promise<void> {
  const session = openSession(options);
  const { id } = await containerOf(session, name);
  const { env, secrets } = await session.client.call('getSettings', { params: { id } });
  const missing = variables.find((key) => !Object.hasOwn(env, key) && !secrets.includes(key));
  if (missing !== undefined) throw new ClientFailure('missing', `It has no variable ${clean(missing)}.`);
  const without = (keys: readonly string[]) => Object.fromEntries(keys.map((key) => [key, null]));
  const body = {
    env: without(variables.filter((key) => Object.hasOwn(env, key))),
    secrets: without(variables.filter((key) => secrets.includes(key))),
  };
  await change(name, body, options);
}

/** Changes them, and waits until a container that runs does so with them. */
async function change(name: string, body: ContainerChange, options: EnvOptions): Promise<void> {
  const session = openSession(options);
  const before = await containerOf(session, name);
  const asked = await session.client.call('updateContainer', { params: { id: before.id }, body });
  const now = options.wait === false ? asked : await settled(session, before, asked, options.timeout);
  session.out.done(now, sentence(before, asked, now));
  noteHealth(session, now);
}

/** What became of the change. */
function sentence(before: Container, asked: Container, now: Container): string {
  const { name } = now;
  if (now.status === 'stopped' || now.status === 'failed')
    return `${name} is changed. It is ${now.status}, and gets this at its next start.`;
  if (asked.next_image !== undefined && now.next_image !== undefined)
    return `${name} is changed. It gets this with its next image.`;
  const restarts = asked.status !== before.status || now.started_at !== before.started_at;
  if (!restarts) return `${name} is changed, and was not restarted.`;
  return now.status === 'running' ? `${name} was restarted, and runs with it.` : `${name} is being restarted with it.`;
}
