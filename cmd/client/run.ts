/** `troupe run`: a container with its ports, waited for, and entered. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import type { CallInput, Container } from '../../client/index.ts';
import { ClientFailure } from './failure.ts';
import { pick } from './names.ts';
import { parsePort } from './ports.ts';
import { confirm } from './prompt.ts';
import { type ClientCommandOptions, type ClientSession, openSession } from './session.ts';
import { waitFor } from './wait.ts';

export interface RunOptions extends ClientCommandOptions {
  readonly image?: string;
  readonly size?: string;
  readonly memory?: number;
  readonly storage?: number;
  readonly key?: readonly string[];
  readonly port?: readonly string[];
  readonly mount?: readonly string[];
  readonly pull?: 'always' | 'missing';
  readonly ssh?: boolean;
  readonly wait?: boolean;
  readonly shell?: boolean;
  readonly timeout: number;
}

type Body = CallInput<'createContainer'>['body'];
type Size = NonNullable<Body['instance_type']>;

const SIZES: readonly Size[] = ['nano', 'micro', 'mini', 'tiny', 'small', 'medium'];

/** Makes a container. Without a name it gets one of two words. */
export async function runContainer(name: string | undefined, options: RunOptions): Promise<void> {
  const ports = (options.port ?? []).map(parsePort);
  const session = openSession(options);
  const { client, out } = session;
  const ssh_key_ids = await keyIds(session, options.key);
  const size = SIZES.find((each) => each === options.size);
  if (options.size !== undefined && size === undefined)
    throw new ClientFailure('usage', `There is no size ${options.size}: the sizes are ${SIZES.join(', ')}.`);
  const body: Body = {
    name: name ?? madeUpName(),
    ssh_key_ids,
    ...(size === undefined ? undefined : { instance_type: size }),
    ...(options.memory === undefined ? undefined : { memory_mb: options.memory }),
    ...(options.storage === undefined ? undefined : { storage_gb: options.storage }),
    ...(options.mount === undefined ? undefined : { mount_paths: [...options.mount] }),
    ...(options.image === undefined ? undefined : { image: options.image }),
    ...(options.pull === undefined
      ? undefined
      : { pull_policy: options.pull === 'always' ? 'Always' : 'IfNotPresent' }),
    ssh_enabled: options.ssh === true,
  };
  const made = await client.call('createContainer', { body });
  for (const { port, target } of ports)
    await client.call('addIngress', { params: { id: made.id }, body: { port, target_port: target } });
  if (options.wait === false && !options.shell) {
    out.done(made, `${made.name} is starting (${made.id}).`);
    return;
  }
  const began = performance.now();
  const goal = { until: 'running', seconds: options.timeout, goesOn: 'it goes on starting' } as const;
  const running = await waitFor(session, made, goal);
  if (running === undefined) throw new ClientFailure('missing', `${made.name} was deleted meanwhile.`);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  if (!options.shell || !out.json) out.done(running, `${made.name} is running (${made.id}), after ${seconds} s.`);
  if (options.shell) await (await import('./shell.ts')).openShell(session, running, {});
  else if (!out.json) next(session, running, ports.length > 0);
}

function next({ out }: ClientSession, { name, ssh }: Container, hasPorts: boolean): void {
  if (!out.canAsk) return;
  out.note(`  troupe shell ${name}     a shell in it`);
  out.note(`  troupe logs -f ${name}   what it prints`);
  if (hasPorts) out.note(`  troupe open ${name}      its page`);
  if (ssh !== undefined) out.note(`  troupe ssh ${name}       by SSH`);
}

/** The ids of the named keys; of all keys when none is named; of a new one when there is none yet. */
async function keyIds(session: ClientSession, named: readonly string[] | undefined): Promise<number[]> {
  const { ssh_keys } = await session.client.call('listSshKeys');
  if (named !== undefined) return named.map((text) => pick(ssh_keys, text, 'SSH key').id);
  if (ssh_keys.length > 0) return ssh_keys.map(({ id }) => id);
  const path = ownKeyFile() ?? (await makeKey(session));
  const key = await session.client.call('createSshKey', {
    body: { name: keyName(), public_key: readFileSync(path, 'utf8') },
  });
  session.out.note(`Added your SSH key ${path} as ${key.name}.`);
  return [key.id];
}

/** A name for a key of this machine. */
export function keyName(): string {
  return `${userInfo().username}@${hostname()}`.slice(0, 64);
}

const KEY_FILES = ['id_ed25519.pub', 'id_ecdsa.pub', 'id_rsa.pub'];

/** The public key of the person at this machine, if there is one: where ssh looks, whatever HOME says. */
export function ownKeyFile(): string | undefined {
  return KEY_FILES.map((file) => join(userInfo().homedir, '.ssh', file)).find((file) => existsSync(file));
}

async function makeKey({ out }: ClientSession): Promise<string> {
  const path = join(userInfo().homedir, '.ssh', 'id_ed25519');
  const otherwise = 'A container needs an SSH key, and you have none: `ssh-keygen -t ed25519`, then `troupe key add`.';
  if (!out.canAsk || !(await confirm(`You have no SSH key. Make ${path}?`, true)))
    throw new ClientFailure('usage', otherwise);
  // Not ssh-keygen: a machine without an SSH client has none.
  const { generateKeyPair } = await import('../../transports/ssh/keys.ts');
  const { privateKey, publicKey } = generateKeyPair(keyName());
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeFileSync(path, privateKey, { mode: 0o600, flag: 'wx' });
  writeFileSync(`${path}.pub`, `${publicKey}\n`, { flag: 'wx' });
  return `${path}.pub`;
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
