/** Where this program keeps who is logged in where: a file that only its user may read. */
import { chmodSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { isCode } from '../../lib/errors.ts';
import { jsonOf } from '../../lib/input.ts';
import { ClientFailure } from './failure.ts';
import type { Profile } from './place.ts';

/** All profiles, and which is meant when none is named. */
interface ProfileFile {
  readonly current: string;
  readonly profiles: readonly Profile[];
}

/** The folder of this program: `$XDG_CONFIG_HOME/troupe` (XDG base directory specification). */
export function configFolder(): string {
  return join(process.env.XDG_CONFIG_HOME || join(homedir(), '.config'), 'troupe');
}

const fileName = (): string => join(configFolder(), 'client.json');

/** Reads the profiles; none without a file. Throws ClientFailure if others may read it too, or it is damaged. */
export function readProfiles(): ProfileFile {
  const path = fileName();
  let text: string;
  try {
    if ((statSync(path).mode & 0o077) !== 0)
      throw new ClientFailure('failed', `Others may read ${path}, which holds tokens: \`chmod 600 ${path}\`.`);
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (isCode(error, 'ENOENT')) return { current: '', profiles: [] };
    throw error;
  }
  const file = parse(text);
  if (file === undefined) throw new ClientFailure('failed', `${path} cannot be read: delete it and log in again.`);
  return file;
}

/** Writes the profiles whole, or not at all. */
export function writeProfiles(file: ProfileFile): void {
  const path = fileName();
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  chmodSync(dirname(path), 0o700);
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(file, undefined, 2)}\n`, { mode: 0o600, flush: true });
  renameSync(draft, path);
}

/** The profile of a command: of the environment, the named one, or the current one. Throws ClientFailure. */
export function chooseProfile(named: string | undefined): Profile {
  const { TROUPE_URL, TROUPE_TOKEN, TROUPE_CA, TROUPE_PROFILE } = process.env;
  if (named === undefined && TROUPE_URL && TROUPE_TOKEN) {
    const authority = TROUPE_CA ? readFileSync(TROUPE_CA, 'utf8') : undefined;
    return { name: 'environment', url: checkedUrl(TROUPE_URL), token: TROUPE_TOKEN, authority };
  }
  const { current, profiles } = readProfiles();
  const name = named ?? (TROUPE_PROFILE || current);
  const profile = profiles.find((each) => each.name === name);
  if (profile !== undefined) return profile;
  if (named !== undefined && profiles.length > 0)
    throw new ClientFailure(
      'usage',
      `There is no profile ${name}: there is ${profiles.map((each) => each.name).join(', ')}.`,
    );
  throw new ClientFailure('login', 'You are not logged in: `troupe login URL`, with the address of the platform.');
}

/** The address of a platform. A token never goes over the network unencrypted. Throws ClientFailure. */
export function checkedUrl(text: string): string {
  const address = /^https?:\/\//.test(text) ? text : `https://${text}`;
  if (text.replace(/^https?:\/\//, '').includes('://') || !URL.canParse(address))
    throw new ClientFailure('usage', `${text} is no address such as https://cloud.example.com.`);
  const { protocol, hostname, origin } = new URL(address);
  const isHere = hostname === 'localhost' || hostname.endsWith('.localhost') || /^127\.|^\[::1\]$/.test(hostname);
  if (protocol === 'http:' && !isHere)
    throw new ClientFailure('usage', `${origin} is not encrypted: use https://${new URL(origin).host}.`);
  return origin;
}

function parse(text: string): ProfileFile | undefined {
  const value = jsonOf(text);
  if (typeof value !== 'object' || value === null || !('current' in value) || !('profiles' in value)) return undefined;
  const { current, profiles } = value;
  if (typeof current !== 'string' || !Array.isArray(profiles) || !profiles.every(isProfile)) return undefined;
  return { current, profiles };
}

const OPTIONAL = ['username', 'userId', 'authority'];

function isProfile(value: unknown): value is Profile {
  if (typeof value !== 'object' || value === null) return false;
  const member = (name: string): unknown => Object.getOwnPropertyDescriptor(value, name)?.value;
  return (
    ['name', 'url', 'token'].every((name) => typeof member(name) === 'string') &&
    OPTIONAL.every((name) => ['string', 'undefined'].includes(typeof member(name)))
  );
}
