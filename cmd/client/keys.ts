/** `troupe key`, `security-key`. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { ClientFailure } from './failure.ts';
import { pick } from './names.ts';
import { readInput, takeSecret } from './prompt.ts';
import { keyName, ownKeyFile } from './run.ts';
import { type ClientCommandOptions, openSession } from './session.ts';

/** Lists the SSH keys. */
export async function listSshKeys(options: ClientCommandOptions): Promise<void> {
  const { client, out } = openSession(options);
  const answer = await client.call('listSshKeys');
  const rows = answer.ssh_keys.map(({ id, name, public_key, created_at }) => [
    name,
    public_key.split(' ')[0]?.replace('ssh-', '') ?? '',
    fingerprintOf(public_key),
    out.when(created_at),
    String(id),
  ]);
  out.table(answer, ['NAME', 'TYPE', 'FINGERPRINT', 'ADDED', 'ID'], rows, 'You have no SSH key: `troupe key add`.');
}

/** As ssh-keygen -l shows it. */
function fingerprintOf(publicKey: string): string {
  const bytes = Buffer.from(publicKey.split(' ')[1] ?? '', 'base64');
  return `SHA256:${createHash('sha256').update(bytes).digest('base64').replace(/=+$/, '')}`;
}

export interface AddKeyOptions extends ClientCommandOptions {
  readonly name?: string;
}

/** Adds an SSH key: of a file, of standard input (`-`), or the one of the person at this machine. */
export async function addKey(file: string | undefined, options: AddKeyOptions): Promise<void> {
  const { client, out } = openSession(options);
  const path = file ?? ownKeyFile();
  if (path === undefined)
    throw new ClientFailure('usage', 'There is no key in ~/.ssh: `ssh-keygen -t ed25519` makes one.');
  const public_key = path === '-' ? await readInput() : readPublicKey(path);
  const comment = public_key.trim().split(/\s+/)[2];
  const key = await client.call('createSshKey', { body: { name: options.name ?? comment ?? keyName(), public_key } });
  out.done(key, `Added ${key.name} (${key.id}). New containers get it.`);
}

function readPublicKey(path: string): string {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (cause) {
    throw new ClientFailure('usage', `${path} cannot be read.`, { cause });
  }
  if (text.includes('PRIVATE KEY')) throw new ClientFailure('usage', `${path} is the private key: name ${path}.pub.`);
  return text;
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
