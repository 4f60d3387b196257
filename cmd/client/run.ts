/** `troupe run`: a container with its ports, waited for, and entered. */
import type { CallInput, Container } from '../../client/index.ts';
import type { CacheMode } from '../../proto/gateway/cache-mode.ts';
import { CACHE_OF_OPENED } from './cache.ts';
import { parsePairs, readEnvFile, readSecret } from './env.ts';
import { ClientFailure } from './failure.ts';
import { type HealthOptions, healthOf, noteHealth } from './health.ts';
import { imageNamed } from './image-names.ts';
import { mustBeFree, pick } from './names.ts';
import type { OwnMachine } from './place.ts';
import { guardFor, mustBeGuardable, type PortGuardOption, PULL_POLICIES, portToOpen } from './ports.ts';
import { confirm } from './prompt.ts';
import { type ClientCommandOptions, type ClientSession, openSession } from './session.ts';
import { expiryOf } from './times.ts';
import { waitFor } from './wait.ts';

/** What `troupe run` and `troupe update` both take. */
export interface SettingOptions extends ClientCommandOptions, HealthOptions {
  readonly image?: string;
  readonly size?: string;
  readonly memory?: number;
  readonly storage?: number;
  readonly key?: readonly string[];
  readonly restart?: 'always' | 'on-failure' | 'no';
  readonly stopGrace?: number;
  /** False, of a change: what the image says. */
  readonly workingDir?: string | false;
  readonly entrypoint?: readonly string[] | false;
  readonly pull?: 'always' | 'missing';
  readonly expires?: string;
  /** `none`, of a change: it has none any more. */
  readonly address?: string;
  readonly egress?: string;
  readonly overlap?: boolean;
  /** A command line; empty: none any more. */
  readonly release?: string;
  readonly wait?: boolean;
  readonly timeout: number;
}

export interface RunOptions extends SettingOptions {
  readonly port?: readonly string[];
  readonly access?: PortGuardOption;
  readonly cache?: CacheMode;
  readonly mount?: readonly string[];
  readonly env?: readonly string[];
  readonly envFile?: string;
  readonly secret?: string;
  readonly network?: string;
  readonly alias?: string;
  readonly ssh?: boolean;
  readonly shell?: boolean;
  /** Also if there is a container of that name. */
  readonly sameName?: boolean;
}

type Body = CallInput<'createContainer'>['body'];
type Size = NonNullable<Body['instance_type']>;

const SIZES: readonly Size[] = ['nano', 'micro', 'mini', 'tiny', 'small', 'medium'];

/** Makes a container, which runs the command if there is one. Without a name it gets one of two words. */
export async function runContainer(
  name: string | undefined,
  command: readonly string[],
  options: RunOptions,
): Promise<void> {
  const ports = (options.port ?? []).map(portToOpen);
  mustBeGuardable(ports, options.access);
  if (ports.length === 0 && options.access !== undefined)
    throw new ClientFailure('usage', '--access is of ports: name one, such as -p 443:8080/https.');
  const { cache = CACHE_OF_OPENED } = options;
  if (ports.length === 0 && options.cache !== undefined)
    throw new ClientFailure('usage', '--cache is of ports: name one, such as -p 80:8080.');
  const expires_at = expiryOf(options.expires);
  const named = options.env && parsePairs(options.env);
  const session = openSession(options);
  const { client, out } = session;
  if (name !== undefined && options.sameName !== true) await mustBeFree(session, name);
  const env = options.envFile === undefined ? named : { ...(await readEnvFile(out, options.envFile)), ...named };
  const ssh_key_ids = await keyIds(session, options.key);
  const settings = settingsOf(command, options);
  const secrets =
    options.secret === undefined ? undefined : { [options.secret]: await readSecret(out, options.secret) };
  const guard = await guardFor(options.access, session);
  const body: Body = {
    name: name ?? madeUpName(),
    ssh_key_ids,
    ...settings,
    ...(expires_at && { expires_at }),
    ...(options.address === undefined ? undefined : { address_name: options.address }),
    ...mountPathsOf(options.mount),
    ...(env === undefined ? undefined : { env }),
    ...(secrets === undefined ? undefined : { secrets }),
    ...(options.image === undefined ? undefined : { image: await imageNamed(session, options.image) }),
    ...(options.network === undefined ? undefined : { network: options.network }),
    ...(options.alias === undefined ? undefined : { alias: options.alias }),
    ssh_enabled: options.ssh === true,
  };
  const made = await client.call('createContainer', { body });
  for (const body of ports)
    await client
      .call('addIngress', { params: { id: made.id }, body: { ...body, ...guard, cache } })
      .catch((error: unknown) => {
        out.note(`${made.name} is made (${made.id}) and starts, but port ${body.port} is not open.`);
        throw error;
      });
  if (options.wait === false && !options.shell) {
    out.done(made, `${made.name} is starting (${made.id}).`);
    return;
  }
  const began = performance.now();
  const goal = { until: 'running', seconds: options.timeout, goesOn: 'it goes on starting' } as const;
  const running = await waitFor(session, made, goal);
  if (running === undefined) throw new ClientFailure('missing', `${made.name} was deleted meanwhile.`);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  const how = running.health ? `running and ${running.health}` : 'running';
  if (!options.shell || !out.json) out.done(running, `${made.name} is ${how} (${made.id}), after ${seconds} s.`);
  noteHealth(session, running);
  if (running.expires_at !== undefined && !out.json)
    out.note(`It is stopped at ${running.expires_at}, and deleted a day later.`);
  if (options.shell) await (await import('./shell.ts')).openShell(session, running, {});
  else if (!out.json) next(session, running, ports.length > 0);
}

/** What a new container and a change of one say alike. Throws ClientFailure. */
export function settingsOf(command: readonly string[], options: SettingOptions) {
  const { memory, storage, pull, restart, stopGrace, workingDir, entrypoint, egress, overlap } = options;
  const size = sizeOf(options.size);
  const health = healthOf(options);
  return {
    ...(memory === undefined ? undefined : { memory_mb: memory }),
    ...(size === undefined ? undefined : { instance_type: size }),
    ...(storage === undefined ? undefined : { storage_gb: storage }),
    ...(pull === undefined ? undefined : { pull_policy: PULL_POLICIES[pull] }),
    ...(restart === undefined ? undefined : { restart }),
    ...(stopGrace === undefined ? undefined : { stop_grace: stopGrace }),
    ...(workingDir === undefined ? undefined : { working_dir: workingDir || null }),
    ...(entrypoint === undefined ? undefined : { entrypoint: entrypoint ? [...entrypoint] : null }),
    ...(egress === undefined ? undefined : { egress: egressOf(egress) }),
    ...(overlap === undefined ? undefined : { overlap }),
    ...(options.release === undefined ? undefined : { release: releaseOf(options.release) }),
    ...(command.length === 0 ? undefined : { command: [...command] }),
    ...(health === undefined ? undefined : { health }),
  };
}

/** What `--release` says: a command line, as people write one; null: none. */
function releaseOf(line: string): string[] | null {
  return line.trim() === '' ? null : ['/bin/sh', '-c', line];
}

/** What `--egress` says: a word, or networks, as a list or with commas between them. */
export function egressOf(text: string | readonly string[]): 'any' | 'none' | string[] {
  if (typeof text !== 'string') return [...text];
  if (text === 'any' || text === 'none') return text;
  return text.split(',').map((network) => network.trim());
}

/** The size of that name; undefined without one. Throws ClientFailure. */
export function sizeOf(name: string | undefined): Size | undefined {
  const size = SIZES.find((each) => each === name);
  if (name !== undefined && size === undefined)
    throw new ClientFailure('usage', `There is no size ${name}: the sizes are ${SIZES.join(', ')}.`);
  return size;
}

function next({ out }: ClientSession, { name, ssh }: Container, hasPorts: boolean): void {
  if (!out.canAsk) return;
  const { program } = out.place;
  out.note(`  ${program} shell ${name}     a shell in it`);
  out.note(`  ${program} logs -f ${name}   what it prints`);
  if (hasPorts) out.note(`  ${program} open ${name}      its page`);
  if (ssh !== undefined && out.place.machine !== undefined) out.note(`  troupe ssh ${name}       by SSH`);
}

/** The ids of the named keys; of all keys when none is named; of a new one when there is none yet. */
export async function keyIds(session: ClientSession, named: readonly string[] | undefined): Promise<number[]> {
  const { ssh_keys } = await session.client.call('listSshKeys');
  if (named !== undefined) return named.map((text) => pick(ssh_keys, text, 'SSH key').id);
  if (ssh_keys.length > 0) return ssh_keys.map(({ id }) => id);
  const { machine } = session.out.place;
  if (machine === undefined)
    throw new ClientFailure('usage', 'A container needs an SSH key, and you have none: `key add -` takes one.');
  const path = machine.ownKeyFile() ?? (await makeKey(session, machine));
  const key = await session.client.call('createSshKey', {
    body: { name: machine.keyName(), public_key: machine.readPublicKey(path) },
  });
  session.out.note(`Added your SSH key ${path} as ${key.name}.`);
  return [key.id];
}

async function makeKey({ out }: ClientSession, machine: OwnMachine): Promise<string> {
  const otherwise = 'A container needs an SSH key, and you have none: `troupe key add --make` makes one.';
  if (!out.canAsk || !(await confirm(out, `You have no SSH key. Make ${machine.newKeyFile}?`, true)))
    throw new ClientFailure('usage', otherwise);
  return machine.makeKey();
}

const FIRST = ['amber', 'brisk', 'calm', 'dusky', 'early', 'fond', 'glad', 'keen', 'lucid', 'merry', 'quiet', 'swift'];
const SECOND = [
  'acorn',
  'birch',
  'cedar',
  'delta',
  'ember',
  'fjord',
  'grove',
  'heron',
  'inlet',
  'maple',
  'otter',
  'reed',
];

function madeUpName(): string {
  const one = (words: readonly string[]) => words[Math.floor(Math.random() * words.length)] ?? '';
  return `${one(FIRST)}-${one(SECOND)}`;
}

/** What `--mount` asks for. Throws ClientFailure for "none" beside a path. */
function mountPathsOf(given: readonly string[] | undefined): Pick<Body, 'mount_paths' | 'stateless'> {
  if (given === undefined) return {};
  if (!given.includes('none')) return { mount_paths: [...given] };
  if (given.length > 1) throw new ClientFailure('usage', 'Give paths to --mount, or "none" alone.');
  return { stateless: true };
}
