/** The real authentication service on a real database and the embedded bus, called as a transport calls it. */
import assert from 'node:assert/strict';
import type { RegistryDeps } from '../../../actors/auth/deps.ts';
import { addUser } from '../../../actors/auth/users/users.ts';
import { type Identity, identitySchema, login } from '../../../proto/auth/endpoints.ts';
import type { Caller } from '../../../proto/endpoint.ts';
import { tokenDirectory } from '../../../storage/auth/token-directory.ts';
import { keptAnswers } from '../../../storage/idempotency.ts';
import { type Authentication, openAuthentication } from '../../../transports/api/authentication.ts';
import { silentLog } from '../log.ts';
import type { Cleanup } from '../temp.ts';
import { type NodeOptions, SECRET } from './node.ts';
import { openService } from './open-service.ts';

export const RELYING_PARTY = { id: 'troupe.test', origins: undefined, tenants: 'compute.troupe.test' };
export const PASSWORD = 'correct horse battery';

export type AuthUnderTest = Awaited<ReturnType<typeof openAuthNode>>;

/** The waits that the throttle asked for are over. */
export async function unblock(auth: AuthUnderTest): Promise<void> {
  await auth.db.run('update login_attempts set blocked_until = now()');
  auth.clock.advance(1000); // A node may believe a block for a second.
}

/** The service as one process of several has it. */
export async function openAuthNode(t: Cleanup, options: NodeOptions = {}, registry: RegistryDeps = {}) {
  const opened = await openService(t, 'auth', () => ({ registry }), {
    domain: RELYING_PARTY.id,
    environment: { SESSION_TTL: '1h' },
    ...options,
  });
  /** Whom a token proves now. */
  const prove = async (token: string) => opened.authenticate(token);
  /** Tries to log in. */
  const logIn = async (username: string, password: string, address = '192.0.2.1'): Promise<Identity> =>
    identitySchema.parse(await opened.call(login, undefined, { body: { username, password }, address }));
  /** Logs in, and returns who the token proves. */
  const enter = async (username: string, password = PASSWORD): Promise<Caller> => {
    const caller = await prove((await logIn(username, password)).token);
    assert.ok(caller);
    return caller;
  };
  return Object.assign(opened, { prove, login: logIn, enter });
}

/** The service with a user `ann`. */
export async function openAuth(t: Cleanup, { registry }: { readonly registry?: RegistryDeps } = {}) {
  const auth = await openAuthNode(t, { relays: true }, registry);
  await addUser(auth.outside, 'ann', PASSWORD);
  return auth;
}

/** Another process that proves callers, as every service does. */
export function otherProcess(t: Cleanup, { outside, clock }: AuthUnderTest): Authentication {
  const authentication = openAuthentication({
    directory: tokenDirectory(outside),
    secret: SECRET,
    clock,
    log: silentLog,
    kept: keptAnswers(outside, SECRET),
    changePace: { burst: 600, perSecond: 10 },
    onUse: () => {},
  });
  t.after(() => authentication.close());
  return authentication;
}
