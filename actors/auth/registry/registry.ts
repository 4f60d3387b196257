/** The registry's token endpoint: who asks, what they may do, and the token that says so. */
import { ownRegistryToken, type RepositoryAccess, registryToken, registryUsage } from '../../../proto/auth/registry.ts';
import { API_TOKEN_PREFIX, REGISTRY_TOKEN_SECONDS, type RegistryHolder } from '../../../proto/auth/tokens.ts';
import type { Caller, CallOf, ReplyOf } from '../../../proto/endpoint.ts';
import { Refusal } from '../../../proto/errors.ts';
import { publicAmong } from '../../../storage/auth/repositories.ts';
import { noteImages, userById } from '../../../storage/auth/users.ts';
import { callerOf, type Handler, handler } from '../../service/dispatch.ts';
import type { AuthDeps, RegistryDeps } from '../deps.ts';
import type { ProvePassword } from '../login/prove-password.ts';
import { pullCredentials } from './pull-credential.ts';
import { accessFor, askedFor, ownerOf, type RegistryIdentity } from './registry-rules.ts';
import { DEFAULT_ISSUER, registryTokens } from './registry-tokens.ts';

/** The handlers. */
export function registryHandlers(deps: AuthDeps, provePassword: ProvePassword): readonly Handler<undefined>[] {
  const { db, clock, jwtSecret, registry = {} } = deps;
  const issue = registryTokens({
    clock,
    jwtSecret,
    issuer: registry.issuer ?? DEFAULT_ISSUER,
    signer: registry.signer,
  });
  const identify = identifier(deps, together(provePassword));

  return [
    handler(registryToken, async (_: undefined, call) => {
      const { service, scope } = call.query;
      if (registry.service !== undefined && service !== registry.service) {
        const message = `service must be ${registry.service}: that is the registry of this platform`;
        throw new Refusal('invalid_request', { message, fields: [{ path: 'service', message }] });
      }
      const who = await identify(call);
      const asked = askedFor(scope);
      const open = await publicAmong(db, [...asked.keys()]);
      const access = await withinRoom(
        registry,
        accessFor(who, asked, (name) => open.has(name)),
      );
      await notePushes(deps, access);
      const subject = who.kind === 'anonymous' ? '' : who.username;
      const { token, issuedAt } = await issue({ subject, service, access, holder: holderIn(registry, who) });
      return {
        token,
        expires_in: REGISTRY_TOKEN_SECONDS,
        issued_at: issuedAt.toISOString(),
      } satisfies ReplyOf<typeof registryToken>;
    }),

    handler(ownRegistryToken, async (_: undefined, call) => {
      const { service } = registry;
      if (service === undefined) throw new Refusal('not_found', { message: 'This platform has no image registry.' });
      const caller = callerOf(call);
      const asked = askedFor(call.query.scope);
      const open = await publicAmong(db, [...asked.keys()]);
      const who = identityOf(caller);
      const access = await withinRoom(
        registry,
        accessFor(who, asked, (name) => open.has(name)),
      );
      await notePushes(deps, access);
      const { token } = await issue({ subject: caller.username, service, access, holder: holderIn(registry, who) });
      return {
        token,
        expires_in: REGISTRY_TOKEN_SECONDS,
        access: access.map(({ name, actions }) => ({ repository: name, actions: [...actions] })),
      } satisfies ReplyOf<typeof ownRegistryToken>;
    }),

    handler(registryUsage, async (_: undefined, call) => {
      const message =
        'This platform runs no image registry of its own: only the one that it runs tells what users have.';
      if (registry.usage === undefined) throw new Refusal('not_found', { message });
      const { used, limit = null } = await registry.usage(callerOf(call).username);
      return { used_bytes: used, limit_bytes: limit } satisfies ReplyOf<typeof registryUsage>;
    }),
  ];
}

/**
 * What of the access is given while the disk of the registry is almost full. Refuses `no_space` a token to push with.
 * Who may delete as well removes an image. To take off one tag of several, that writes a manifest: there is room for it
 * a while longer. Then only `push` is left out, as to delete writes nothing.
 */
async function withinRoom(
  { room }: RegistryDeps,
  access: readonly RepositoryAccess[],
): Promise<readonly RepositoryAccess[]> {
  const pushes = access.filter(({ actions }) => actions.includes('push'));
  if (pushes.length === 0 || room === undefined) return access;
  const found = await room();
  if (found === 'enough') return access;
  if (pushes.every(({ actions }) => actions.includes('delete'))) {
    if (found === 'little') return access;
    return access.map((each) => ({ ...each, actions: each.actions.filter((action) => action !== 'push') }));
  }
  throw new Refusal('no_space', {
    message: 'The disk of the image registry is almost full: remove images, or ask the administrator for room.',
  });
}

/** Writes down, before a token lets push, that its owners may have images from now on. */
async function notePushes({ db }: AuthDeps, access: readonly RepositoryAccess[]): Promise<void> {
  const owners = new Set<string>();
  for (const { name, actions } of access) if (actions.includes('push')) owners.add(ownerOf(name) ?? '');
  if (owners.size > 0) await noteImages(db, [...owners]);
}

/** Who calls with a token of the platform. */
function identityOf({ kind, username, userId, isAdmin, scopes = {}, tokenId, session }: Caller): RegistryIdentity {
  if (kind !== 'session') return { kind: 'token', username, userId, scopes, holder: { token: tokenId } };
  if (session === undefined) return { kind: 'user', username, isAdmin };
  const { issuedAt: since, epoch } = session;
  return { kind: 'user', username, isAdmin, holder: { user: userId, session: tokenId, since, epoch } };
}

function holderIn({ asksHolders }: RegistryDeps, who: RegistryIdentity): RegistryHolder | undefined {
  if (asksHolders !== true) return undefined;
  return who.kind === 'user' || who.kind === 'token' ? who.holder : undefined;
}

/** Makes the function that says who calls. It refuses as a login does. */
function identifier(deps: AuthDeps, provePassword: ProvePassword) {
  const passes = pullCredentials(deps);
  return async ({ basic, address, requestId }: CallOf<typeof registryToken>): Promise<RegistryIdentity> => {
    if (basic === undefined) return { kind: 'anonymous' };
    // Before anything is counted: nobody guesses a token, so others' failures need not stop who has one.
    const holder = (await holderOf(deps, basic)) ?? (await pullerOf(deps, passes, basic));
    if (holder !== undefined) return holder;
    const claim = { ...basic, address, requestId, purpose: 'registry_token', isWhole: true } as const;
    const user = await provePassword(claim).catch((error: unknown) => {
      if (!(error instanceof Refusal) || error.code !== 'invalid_credentials') throw error;
      // The same for all: who has only the password is not told that it is right.
      throw new Refusal('invalid_credentials', {
        message:
          'The username or the password is wrong. An account with a security key needs an API token of a service ' +
          'account as the password.',
      });
    });
    const { username } = user;
    const held = { user: user.id, session: '', since: 0, epoch: user.sessionsEpoch };
    return { kind: 'user', username, isAdmin: username === deps.adminUsername, holder: held };
  };
}

/**
 * Who gave an API token as the password, under the name of its service account, or, when it has none, of its user.
 * Undefined for anything else, which may still be a password.
 */
async function holderOf(
  { authenticate }: AuthDeps,
  { username, password }: { readonly username: string; readonly password: string },
): Promise<RegistryIdentity | undefined> {
  // The name of a service account may hold the colon that ends a name in Basic credentials; a token holds none.
  const given = `${username}:${password}`;
  const end = given.lastIndexOf(`:${API_TOKEN_PREFIX}`);
  if (end < 0) return undefined;
  const caller = await authenticate(given.slice(end + 1));
  if (caller?.kind !== 'api_token') return undefined;
  if (given.slice(0, end) !== (caller.serviceAccount?.name ?? caller.username)) return undefined;
  return identityOf(caller);
}

/**
 * Who gave a pass as the password, under the name of its user. Undefined for anything else, and for a user who is gone.
 */
async function pullerOf(
  { db }: AuthDeps,
  passes: ReturnType<typeof pullCredentials>,
  { username, password }: { readonly username: string; readonly password: string },
): Promise<RegistryIdentity | undefined> {
  const pass = await passes.open(password);
  if (pass === undefined) return undefined;
  const user = await userById(db, pass.userId);
  return user?.username === username ? { kind: 'pull', username, repository: pass.repository } : undefined;
}

/**
 * Makes equal claims at the same time share one proof. Clients ask for several tokens at once with one password, and
 * each would count as an attempt until the first was found right.
 */
function together(prove: ProvePassword): ProvePassword {
  const running = new Map<string, ReturnType<ProvePassword>>();
  return (claim) => {
    const key = JSON.stringify([claim.username, claim.password, claim.address]);
    const present = running.get(key);
    if (present !== undefined) return present;
    const proof = prove(claim).finally(() => running.delete(key));
    running.set(key, proof);
    return proof;
  };
}
