/** `troupe api-token`, `service-account`. */
import type { CallInput } from '../../client/index.ts';
import { ClientFailure } from './failure.ts';
import { pick } from './names.ts';
import type { Output } from './output.ts';
import { type ClientCommandOptions, type ClientSession, openSession, ownId } from './session.ts';

type ScopeMap = CallInput<'createToken'>['body']['scopes'];
type Lifetime = NonNullable<CallInput<'createToken'>['body']['expires_in']>;

const LIFETIMES: readonly Lifetime[] = ['30d', '90d', '365d', 'never'];

export interface ScopeOptions extends ClientCommandOptions {
  readonly scope: readonly string[];
}

export interface TokenOptions extends ClientCommandOptions {
  readonly expires: string;
}

/**
 * Scopes of the command line: `compute.containers:read,start` of the caller, or with the whole key. Several of one key
 * add up.
 */
export function scopesOf(texts: readonly string[], userId: string): ScopeMap {
  const scopes: Record<string, string[]> = {};
  for (const text of texts) {
    const [, key = '', actions = ''] = /^([^:]+):([a-z,]+)$/.exec(text) ?? [];
    if (key === '')
      throw new ClientFailure(
        'usage',
        `--scope ${text} is no key with actions, such as compute.containers:read,start.`,
      );
    const [service = '', ...rest] = key.split('.');
    const whole = rest[0] === userId ? key : [service, userId, ...rest].join('.');
    scopes[whole] = [...new Set([...(scopes[whole] ?? []), ...actions.split(',').filter((action) => action !== '')])];
  }
  return scopes;
}

function lifetimeOf(text: string): Lifetime {
  const found = LIFETIMES.find((each) => each === text);
  if (found === undefined) throw new ClientFailure('usage', `--expires is one of ${LIFETIMES.join(', ')}.`);
  return found;
}

/** Scopes as `--scope` takes them: without the id of their owner (`userId`). */
export const shownScopes = (scopes: Readonly<Record<string, readonly string[]>>, userId: string): string =>
  Object.entries(scopes)
    .map(([key, actions]) => {
      const parts = key.split('.');
      return `${parts[1] === userId ? parts.toSpliced(1, 1).join('.') : key}:${actions.join(',')}`;
    })
    .join(' ');

const lastUse = (out: Output, at: number): string => (at === 0 ? 'never' : out.when(at));

/** The end of a token as a day, on a terminal as elsewhere: an age says nothing of what is to come. */
const expiry = (at: number): string => (at === 0 ? 'never' : new Date(at * 1000).toISOString().slice(0, 10));

/** Lists the API tokens, those of service accounts too. */
export async function listApiTokens(options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { client, out } = session;
  const [tokens, userId] = await Promise.all([client.call('listTokens'), ownId(session)]);
  const rows = tokens.map(({ id, name, scopes, expires_at, last_used_at, service_account_id }) => [
    name,
    service_account_id === null ? shownScopes(scopes, userId) : `of service account ${service_account_id}`,
    expiry(expires_at),
    lastUse(out, last_used_at),
    id,
  ]);
  out.table(
    tokens,
    ['NAME', 'SCOPES', 'EXPIRES', 'LAST USED', 'ID'],
    rows,
    'You have no API token: `troupe api-token create` makes one.',
  );
}

/** Makes an API token. The secret alone is printed on standard output, now and never again. */
export async function createApiToken(name: string, options: ScopeOptions & TokenOptions): Promise<void> {
  const expires_in = lifetimeOf(options.expires);
  const session = openSession(options);
  const scopes = scopesOf(options.scope, await ownId(session));
  const token = await session.client.call('createToken', { body: { name, scopes, expires_in } });
  session.out.secret(token, `The token ${token.name}`, token.token);
}

/** Revokes an API token. */
export async function removeApiToken(text: string, options: ClientCommandOptions): Promise<void> {
  const { client, out } = openSession(options);
  const { id, name } = pick(await client.call('listTokens'), text, 'API token');
  const answer = await client.call('deleteToken', { params: { id } });
  out.done(answer, `The token ${name} is revoked.`);
}

/** Lists the service accounts. */
export async function listAccounts(options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { client, out } = session;
  const [accounts, userId] = await Promise.all([client.call('listServiceAccounts'), ownId(session)]);
  const rows = accounts.map(({ id, name, scopes, token_count, created_at }) => [
    name,
    shownScopes(scopes, userId),
    String(token_count),
    out.when(created_at),
    id,
  ]);
  out.table(
    accounts,
    ['NAME', 'SCOPES', 'TOKENS', 'CREATED', 'ID'],
    rows,
    'You have no service account: `troupe service-account create` makes one.',
  );
}

/** Makes a service account. */
export async function createAccount(name: string, options: ScopeOptions): Promise<void> {
  const session = openSession(options);
  const scopes = scopesOf(options.scope, await ownId(session));
  const account = await session.client.call('createServiceAccount', { body: { name, scopes } });
  session.out.done(
    account,
    `Added ${name} (${account.id}): \`troupe service-account token ${name} NAME\` makes a token.`,
  );
}

async function accountOf({ client }: ClientSession, text: string) {
  return pick(await client.call('listServiceAccounts'), text, 'service account');
}

/** Replaces the scopes of a service account. */
export async function setAccountScopes(text: string, options: ScopeOptions): Promise<void> {
  const session = openSession(options);
  const userId = await ownId(session);
  const scopes = scopesOf(options.scope, userId);
  const { id, name } = await accountOf(session, text);
  const answer = await session.client.call('setServiceAccountScopes', { params: { id }, body: { scopes } });
  session.out.done(answer, `${name} may do ${shownScopes(scopes, userId) || 'nothing'} from now on.`);
}

/** Makes a token of a service account. */
export async function createAccountToken(text: string, name: string, options: TokenOptions): Promise<void> {
  const expires_in = lifetimeOf(options.expires);
  const session = openSession(options);
  const { id } = await accountOf(session, text);
  const body = { name, expires_in };
  const token = await session.client.call('createServiceAccountToken', { params: { id }, body });
  session.out.secret(token, `The token ${token.name}`, token.token);
}

/** Lists the tokens of a service account. */
export async function listAccountTokens(text: string, options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { out } = session;
  const account = await accountOf(session, text);
  const tokens = await session.client.call('listServiceAccountTokens', { params: { id: account.id } });
  const rows = tokens.map(({ id, name, expires_at, last_used_at }) => [
    name,
    expiry(expires_at),
    lastUse(out, last_used_at),
    id,
  ]);
  out.table(tokens, ['NAME', 'EXPIRES', 'LAST USED', 'ID'], rows, `${account.name} has no token.`);
}

/** Deletes a service account with its tokens. */
export async function removeAccount(text: string, options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { id, name } = await accountOf(session, text);
  const answer = await session.client.call('deleteServiceAccount', { params: { id } });
  session.out.done(answer, `${name} is deleted, and its tokens are revoked.`);
}
