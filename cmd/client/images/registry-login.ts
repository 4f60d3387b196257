/** How registries elsewhere are asked, and what they want to see of whoever asks (OCI distribution specification). */
import { Readable } from 'node:stream';
import { z } from 'zod';
import { errorText } from '../../../lib/errors.ts';
import { jsonOf, readAtMost } from '../../../lib/input.ts';
import { ClientFailure } from '../failure.ts';
import { ACCEPTED } from './registry.ts';
import type { SourceLogin } from './source-login.ts';

const MOST_JSON_BYTES = 4 * 1024 * 1024;
/** How long an answer may take to begin, ms. */
const ANSWER_MS = 60_000;
const HUB = 'docker.io';
/** An answer of a token server; some call the token so, some the other way. */
const tokenSchema = z
  .object({ token: z.string().min(1), access_token: z.string().min(1) })
  .partial()
  .transform(({ token, access_token }) => token ?? access_token);

/** The address of a registry. As Docker does it: those on this machine speak plain HTTP. */
export function addressOfRegistry(host: string): string {
  const at = host === HUB ? 'registry-1.docker.io' : host;
  return `${isLoopback(at.replace(/:\d+$/, '')) ? 'http' : 'https'}://${at}`;
}

/** Asks for something. Rejects with ClientFailure when there is no answer. */
export async function askRegistry(host: string, url: string, authorization: string | undefined): Promise<Response> {
  // Where it is led to another host, `fetch` leaves the authorization out.
  const headers = { accept: ACCEPTED, ...(authorization === undefined ? {} : { authorization }) };
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(new Error('there was no answer in time')), ANSWER_MS);
  try {
    return await fetch(url, { headers, signal: late.signal });
  } catch (cause) {
    const why = errorText(cause instanceof Error && cause.cause !== undefined ? cause.cause : cause);
    throw new ClientFailure('unreachable', `${host} cannot be reached: ${why}`, { cause });
  } finally {
    clearTimeout(timer);
  }
}

/** All of an answer that is not large. */
export async function wholeAnswer(host: string, response: Response): Promise<Buffer> {
  const bytes = await readAtMost(response.body ?? Readable.from([]), MOST_JSON_BYTES);
  if (bytes === undefined) throw new ClientFailure('failed', `The answer of ${host} is too long.`);
  return bytes;
}

/** What requests of a repository carry once the registry has asked: a token from where it says, or the login itself. */
export async function answerToChallenge(
  challenge: string,
  {
    host,
    repository,
    actions,
    login,
  }: {
    readonly host: string;
    readonly repository: string;
    readonly actions: string;
    readonly login: SourceLogin | undefined;
  },
): Promise<string | undefined> {
  const basic = login === undefined ? undefined : basicOf(login);
  if (/^basic /i.test(challenge)) return basic;
  const field = (name: string) => new RegExp(`${name}="([^"]*)"`).exec(challenge)?.[1];
  const realm = URL.canParse(field('realm') ?? '') ? new URL(field('realm') ?? '') : undefined;
  if (realm === undefined || !/^bearer /i.test(challenge)) return undefined;
  // A password goes over plain HTTP only to this machine, and only if the registry is there, too.
  const isPlainHere =
    isLoopback(realm.hostname) && (basic === undefined || addressOfRegistry(host).startsWith('http:'));
  if (realm.protocol !== 'https:' && !isPlainHere) return undefined;
  const service = field('service');
  if (service !== undefined) realm.searchParams.set('service', service);
  realm.searchParams.set('scope', `repository:${repository}:${actions}`);
  // A login that is over must not stand in the way of what anybody may pull.
  for (const shown of basic === undefined ? [undefined] : [basic, undefined]) {
    const text = (await wholeAnswer(host, await askRegistry(host, realm.href, shown))).toString('utf8');
    const token = tokenSchema.safeParse(jsonOf(text)).data;
    if (token !== undefined) return `Bearer ${token}`;
  }
  return undefined;
}

const isLoopback = (host: string): boolean => /^(localhost|127\.\d+\.\d+\.\d+)$/.test(host);

const basicOf = ({ username, password }: SourceLogin): string =>
  `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
