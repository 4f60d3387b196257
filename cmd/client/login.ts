/** `troupe login`, `logout`, `whoami`, `token`, `profile`. */
import { existsSync, readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { type TroupeClient, TroupeError } from '../../client/index.ts';
import { approveDevice } from './device.ts';
import { ClientFailure } from './failure.ts';
import { Output } from './output.ts';
import { clientOf } from './own-client.ts';
import type { Profile } from './place.ts';
import { checkedUrl, chooseProfile, readProfiles, writeProfiles } from './profiles.ts';
import { askSecret, readLine, takeSecret } from './prompt.ts';
import { type ClientCommandOptions, openSession } from './session.ts';
import { fingerprint } from './who.ts';

export interface LoginOptions extends ClientCommandOptions {
  /** Folder of a platform on this machine. */
  readonly data: string;
  readonly user?: string;
  readonly password?: boolean;
  readonly passwordStdin?: boolean;
  readonly token?: boolean;
  readonly ca?: string;
}

/** Where to log in, and what to trust there. */
interface LoginPlace {
  readonly url: string;
  readonly authority: string | undefined;
  /** The file the authority was read from, if it was now. */
  readonly authorityFile: string | undefined;
}

/** Logs in and keeps the token in a profile, which becomes the current one. */
export async function logIn(
  address: string | undefined,
  options: LoginOptions,
  command: Pick<Command, 'getOptionValueSource'>,
): Promise<void> {
  const out = new Output(options);
  const file = readProfiles();
  const isFolderTyped = command.getOptionValueSource('data') === 'cli';
  const typed = address ?? (isFolderTyped ? platformHere(options.data) : undefined);
  const place = placeOf(typed, options, file.profiles);
  const before = file.profiles.find(({ url }) => url === place.url);
  if (place.authorityFile !== undefined && place.authority !== undefined)
    out.note(`Trusting the platform's own authority, ${fingerprint(place.authority)}\n  (${place.authorityFile})`);
  const found = options.token
    ? await byToken(place, out)
    : await byPerson(place, options, out, before?.username ?? userInfo().username);
  const name =
    options.profile ?? before?.name ?? (file.profiles.length === 0 ? 'default' : new URL(place.url).hostname);
  const { authority, url } = place;
  const profile: Profile = { name, url, authority, ...found };
  writeProfiles({ current: name, profiles: [...file.profiles.filter((each) => each.name !== name), profile] });
  const who = profile.username === undefined ? 'with an API token' : `as ${profile.username}`;
  out.done({ profile: name, url, username: profile.username ?? null }, `Logged in at ${url} ${who} (profile ${name}).`);
}

/** What was typed wins over what a profile of that name has. */
function placeOf(typed: string | undefined, options: LoginOptions, profiles: readonly Profile[]): LoginPlace {
  const here = platformHere(options.data);
  const given = typed ?? (process.env.TROUPE_URL || profiles.find(({ name }) => name === options.profile)?.url || here);
  if (given === undefined)
    throw new ClientFailure('usage', 'Which platform? `troupe login URL`, such as https://cloud.example.com.');
  const url = checkedUrl(given);
  const known = profiles.find((profile) => profile.url === url);
  const isHere = here !== undefined && new URL(here).origin === url;
  const caFile = options.ca ?? (isHere ? join(options.data, 'ca.pem') : undefined);
  const authorityFile = caFile !== undefined && (options.ca !== undefined || existsSync(caFile)) ? caFile : undefined;
  const authority = authorityFile === undefined ? known?.authority : readAuthority(authorityFile);
  const isNew = authority !== known?.authority;
  return {
    url,
    authority,
    authorityFile: isNew ? authorityFile : undefined,
  };
}

/** The address of a platform that runs on this machine's data folder; undefined without one, or without the right. */
function platformHere(data: string): string | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(join(data, 'up.json'), 'utf8'));
    const urls = typeof value === 'object' && value !== null && 'urls' in value ? value.urls : undefined;
    if (typeof urls !== 'object' || urls === null || !('https' in urls)) return undefined;
    return typeof urls.https === 'string' ? urls.https : undefined;
  } catch {
    // Not there, or another user's: the address has to be given.
    return undefined;
  }
}

function readAuthority(path: string): string {
  try {
    const pem = readFileSync(path, 'utf8');
    fingerprint(pem);
    return pem;
  } catch (cause) {
    throw new ClientFailure('usage', `${path} holds no certificate of an authority.`, { cause });
  }
}

const TOKEN_WANTED = 'The token comes on standard input: `troupe login --token < FILE`.';

type NewLogin = Pick<Profile, 'token' | 'username' | 'userId'>;

async function byToken(place: LoginPlace, out: Output): Promise<NewLogin> {
  const token = await takeSecret(out, 'API token: ', TOKEN_WANTED);
  if (token === '') throw new ClientFailure('usage', TOKEN_WANTED);
  const client = clientOf({ url: place.url, authority: place.authority, token });
  try {
    const { username, user_id: userId } = await client.call('session');
    return { token, username, userId };
  } catch (error) {
    // An API token is known, but is no login.
    if (!(error instanceof TroupeError && error.status === 403)) throw error;
    return { token };
  }
}

async function byPerson(place: LoginPlace, options: LoginOptions, out: Output, last: string): Promise<NewLogin> {
  const client = clientOf(place);
  if (!options.passwordStdin && !out.canAsk)
    throw new ClientFailure('usage', 'Nobody can be asked here: use --password-stdin with --user, or --token.');
  if (!options.passwordStdin && !options.password && options.user === undefined) {
    const device = await approveDevice(client, out);
    if (device !== undefined) return device;
  }
  const username =
    options.user ?? (options.passwordStdin ? last : (await out.place.ask(`Username [${last}]: `)) || last);
  const password = options.passwordStdin
    ? await readLine(out.place)
    : await askSecret(out.place, `Password of ${username}: `);
  return passwordLogin(client, username, password);
}

async function passwordLogin(client: TroupeClient, username: string, password: string): Promise<NewLogin> {
  try {
    const reply = await client.call('login', { body: { username, password } });
    if ('token' in reply) return { token: reply.token, username: reply.username, userId: reply.user_id };
  } catch (error) {
    if (!(error instanceof TroupeError) || error.code !== 'invalid_credentials') throw error;
    throw new ClientFailure('login', error.message, { cause: error });
  }
  throw new ClientFailure(
    'login',
    `${username} has a security key, which a terminal cannot ask for. ` +
      'Log in by browser, without --user and --password, or with an API token: `troupe login --token`.',
  );
}

/** Ends the session on the platform, if it answers and the token is no API token, and forgets the profile. */
export async function logOut(options: ClientCommandOptions): Promise<void> {
  const { client, profile, out } = openSession(options);
  if (profile.name === 'environment') throw new ClientFailure('usage', 'TROUPE_TOKEN is set: unset it to log out.');
  const hasEnded = await endOwnSession(client);
  const next = removeProfile(profile.name);
  const left = hasEnded ? '' : ' The platform was not told: its session ends by itself.';
  out.done({ profile: profile.name, ended: hasEnded }, `Logged out of ${profile.url}.${left}${next}`);
}

/** Resolves with whether there is nothing left to end: an API token goes on, and its owner deletes it. */
async function endOwnSession(client: TroupeClient): Promise<boolean> {
  try {
    const own = (await client.call('listSessions')).find((session) => session.is_current);
    if (own !== undefined) await client.call('endSession', { params: { id: String(own.id) } });
    return true;
  } catch (error) {
    // Not a session, or one that has ended.
    return error instanceof TroupeError && (error.status === 401 || error.status === 403);
  }
}

/** Gives a sentence, after a space, when commands go to another login now; empty otherwise. */
function removeProfile(name: string): string {
  const { current, profiles } = readProfiles();
  const left = profiles.filter((profile) => profile.name !== name);
  const next = current === name ? left[0] : undefined;
  writeProfiles({ current: current === name ? (next?.name ?? '') : current, profiles: left });
  return next === undefined ? '' : ` ${goesTo(next)}`;
}

/** Says whom commands act for: nobody should do in one account what was meant for another. */
function goesTo({ name, url, username }: Pick<Profile, 'name' | 'url' | 'username'>): string {
  const who = username === undefined ? 'with an API token' : `as ${username}`;
  return `Commands go to ${url} ${who} from now on (profile ${name}).`;
}

/** Prints the bearer, for scripts. */
export async function printToken(options: ClientCommandOptions): Promise<void> {
  const { token } = chooseProfile(options.profile);
  new Output(options).line(options.json ? JSON.stringify({ token }) : token);
}

/** Lists the profiles. */
export async function listProfiles(options: ClientCommandOptions): Promise<void> {
  const { current, profiles } = readProfiles();
  const out = new Output(options);
  const answer = profiles.map(({ name, url, username }) => ({
    name,
    url,
    username: username ?? null,
    current: name === current,
  }));
  const rows = profiles.map(({ name, url, username }) => [
    name === current ? '*' : '',
    url,
    username ?? '(API token)',
    name,
  ]);
  out.table(
    answer,
    ['CURRENT', 'PLATFORM', 'USER', 'NAME'],
    rows,
    'There is no profile: `troupe login URL` makes one.',
  );
}

/** Makes a profile the current one. */
export async function useProfile(name: string, options: ClientCommandOptions): Promise<void> {
  const { profiles } = readProfiles();
  const found = chooseProfile(name);
  writeProfiles({ current: found.name, profiles });
  new Output(options).done({ profile: name, url: found.url }, goesTo(found));
}

/** Deletes a profile with its token. */
export async function deleteProfile(name: string, options: ClientCommandOptions): Promise<void> {
  const found = chooseProfile(name);
  const next = removeProfile(found.name);
  new Output(options).done({ profile: name }, `The profile ${name} is gone.${next}`);
}
