/** `troupe key`, `security-key`. */
import { createHash } from 'node:crypto';
import { ClientFailure } from './failure.ts';
import { pick } from './names.ts';
import type { CommandPlace } from './place.ts';
import { readInput, takeSecret } from './prompt.ts';
import { type ClientCommandOptions, openSession } from './session.ts';

/** Lists the SSH keys. */
export async function listSshKeys(options: ClientCommandOptions): Promise<void> {
  const { client, out } = openSession(options);
  const answer = await client.call('listSshKeys');
  const rows = answer.ssh_keys.map(({ id, name, public_key, created_at, login }) => [
    name,
    public_key.split(' ')[0]?.replace('ssh-', '') ?? '',
    fingerprintOf(public_key),
    login === true ? 'yes' : 'no',
    out.when(created_at),
    String(id),
  ]);
  out.table(
    answer,
    ['NAME', 'TYPE', 'FINGERPRINT', 'LOGIN', 'ADDED', 'ID'],
    rows,
    'You have no SSH key: `troupe key add`.',
  );
}

/** As ssh-keygen -l shows it. */
function fingerprintOf(publicKey: string): string {
  const bytes = Buffer.from(publicKey.split(' ')[1] ?? '', 'base64');
  return `SHA256:${createHash('sha256').update(bytes).digest('base64').replace(/=+$/, '')}`;
}

export interface AddKeyOptions extends ClientCommandOptions {
  readonly name?: string;
  readonly login?: boolean;
  readonly make?: boolean;
}

/** Adds an SSH key: of a file, of standard input (`-`), or the one of the person at this machine. */
export async function addKey(file: string | undefined, options: AddKeyOptions): Promise<void> {
  const { client, out } = openSession(options);
  const public_key = await publicKeyOf(out.place, file, options.make === true);
  const comment = public_key.trim().split(/\s+/)[2];
  const name = options.name ?? comment ?? out.place.machine?.keyName() ?? 'by SSH';
  const login = options.login === true ? { login: true } : undefined;
  const key = await client.call('createSshKey', { body: { name, public_key, ...login } });
  const opens = key.login === true ? 'It opens new containers, and your account by SSH.' : 'New containers get it.';
  out.done(key, `Added ${key.name} (${key.id}). ${opens}`);
}

async function publicKeyOf(place: CommandPlace, file: string | undefined, isMade: boolean): Promise<string> {
  if (isMade && file !== undefined) throw new ClientFailure('usage', 'Give a file, or --make alone.');
  if (file === '-') return readInput(place);
  if (place.machine === undefined)
    throw new ClientFailure('usage', 'By SSH no files are read: `key add - < FILE`, with the file of your machine.');
  const path = file ?? place.machine.ownKeyFile() ?? (isMade ? await place.machine.makeKey() : undefined);
  if (path === undefined)
    throw new ClientFailure('usage', 'There is no key in ~/.ssh: `troupe key add --make` makes one.');
  return place.machine.readPublicKey(path);
}

export interface LoginKeyOptions extends ClientCommandOptions {
  readonly off?: boolean;
}

/** Lets a key log in to the account by SSH, or no longer. */
export async function setLoginKey(text: string, options: LoginKeyOptions): Promise<void> {
  const { client, out } = openSession(options);
  const { id, name } = pick((await client.call('listSshKeys')).ssh_keys, text, 'SSH key');
  const login = options.off !== true;
  const key = await client.call('setSshKeyLogin', { params: { id: String(id) }, body: { login } });
  out.done(key, login ? `The key ${name} opens your account by SSH.` : `The key ${name} opens containers alone.`);
}

/** Deletes an SSH key. */
export async function removeKey(text: string, options: ClientCommandOptions): Promise<void> {
  const { client, out } = openSession(options);
  const { id, name } = pick((await client.call('listSshKeys')).ssh_keys, text, 'SSH key');
  const answer = await client.call('deleteSshKey', { params: { id: String(id) } });
  out.done(answer, `The key ${name} is deleted: it opens no container any more.`);
}

/** Lists the security keys. */
export async function listSecurityKeys(options: ClientCommandOptions): Promise<void> {
  const { client, out } = openSession(options);
  const answer = await client.call('listKeys');
  const rows = answer.keys.map(({ id, name, authenticator_type, created_at }) => [
    name,
    authenticator_type,
    out.when(created_at),
    id,
  ]);
  out.table(answer, ['NAME', 'TYPE', 'ADDED', 'ID'], rows, 'You have no security key. A browser can add one.');
}

/** Deletes a security key. */
export async function removeSecurityKey(text: string, options: ClientCommandOptions): Promise<void> {
  const { client, out } = openSession(options);
  const { id, name } = pick((await client.call('listKeys')).keys, text, 'security key');
  const password = await takeSecret(out, 'Your password: ', 'The password comes on standard input here.');
  await client.call('deleteKey', { body: { id, ...(password === '' ? undefined : { password }) } });
  out.done({ id }, `The security key ${name || id} is deleted.`);
}
