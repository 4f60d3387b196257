/** Who is logged in here, and how that begins and ends. */
import { effect, signal } from '@preact/signals';
import { type CallReply, TroupeClient, TroupeError } from '../../client/index.ts';
import { call, client, HEADERS, refusedLogins, transport } from './platform.ts';

/** Who a session is of. */
interface Person {
  readonly username: string;
  readonly displayName: string;
  readonly userId: string;
  readonly isAdmin: boolean;
}

/** `unknown`: not asked yet. `ended`: there was one, and what is on the page waits for the next login. */
type SessionState =
  | { readonly state: 'unknown' }
  | { readonly state: 'none' }
  | { readonly state: 'active' | 'ended'; readonly person: Person };

export const session = signal<SessionState>({ state: 'unknown' });
/** Why the first question was not answered. */
export const sessionError = signal<TroupeError | undefined>(undefined);

/** How long the first question waits for the platform to come back, ms. */
const ASK_AGAIN_MS = 3000;

/** Other tabs are told of logins and logouts: what is open there ends or goes on with them. */
const tabs = new BroadcastChannel('troupe-session');

/** The person of the active session, or undefined. */
export function personNow(): Person | undefined {
  const now = session.value;
  return now.state === 'active' || now.state === 'ended' ? now.person : undefined;
}

/** Asks who is logged in, and follows what other tabs do. Called once. */
export function startSession(): void {
  tabs.onmessage = () => void refreshSession();
  effect(() => {
    if (refusedLogins.value === 0) return;
    const now = session.peek();
    if (now.state === 'active') session.value = { state: 'ended', person: now.person };
  });
  void refreshSession();
}

/** Asks again, after an answer that failed. */
export async function refreshSession(): Promise<void> {
  sessionError.value = undefined;
  try {
    begin(await client.call('session'));
  } catch (error) {
    if (error instanceof TroupeError && error.status === 401) leave();
    else if (session.value.state === 'unknown' && error instanceof TroupeError) {
      sessionError.value = error;
      // A page that was loaded while the platform began, or while the network changed, is not left like that.
      if (error.status === 0) setTimeout(() => void refreshSession(), ASK_AGAIN_MS);
    }
  }
}

/** What a password led to. */
type LoginStep = { readonly done: true } | { readonly done: false; readonly challenge: string };

/** The first factor. Rejects with TroupeError. */
export async function enterPassword(username: string, password: string): Promise<LoginStep> {
  const reply = await client.call('login', { body: { username, password } });
  if ('requires_2fa' in reply) return { done: false, challenge: reply.challenge_token };
  await mustBeKept();
  begin(reply);
  tell();
  return { done: true };
}

/** The second factor: the browser asks for the key. Rejects with TroupeError, or with the browser's DOMException. */
export async function answerWithKey(challenge: string): Promise<void> {
  const first = new TroupeClient({ url: location.origin, transport, headers: HEADERS, token: challenge });
  const { options, state } = await first.call('beginKeyLogin');
  const allowCredentials = options.allowCredentials.map(({ transports = [], ...key }) => ({ ...key, transports }));
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON({ ...options, allowCredentials });
  const credential = await navigator.credentials.get({ publicKey });
  if (!(credential instanceof PublicKeyCredential)) throw new TroupeError('cancelled', 'No security key answered.');
  await client.request('POST', '/api/webauthn/login/finish', { state, credential: credential.toJSON() });
  await mustBeKept();
  await refreshSession();
  tell();
}

/**
 * Rejects if the browser has thrown the session away that it was just given. WebKit keeps no Secure cookie that came
 * over plain HTTP, from its own machine neither.
 */
async function mustBeKept(): Promise<void> {
  if (location.protocol !== 'http:') return;
  try {
    await client.call('session');
  } catch (error) {
    if (!(error instanceof TroupeError && error.status === 401)) throw error;
    throw new TroupeError('session_not_kept', 'The browser keeps no session over plain HTTP.', { cause: error });
  }
}

/** Ends the session on the platform, here and in all tabs. */
export async function logOut(): Promise<void> {
  await call('logout');
  leave();
  tell();
}

/** Ends the session, and asks for the password over the page as it is: for what only a new login may do. */
export async function logInAgain(): Promise<void> {
  await call('logout');
  const now = session.peek();
  if (now.state === 'active') session.value = { state: 'ended', person: now.person };
}

/** Of any answer that says who it is. */
function begin(reply: Omit<CallReply<'session'>, 'expires_at'>): void {
  session.value = {
    state: 'active',
    person: {
      username: reply.username,
      displayName: reply.display_name,
      userId: reply.user_id,
      isAdmin: reply.is_admin,
    },
  };
}

function leave(): void {
  session.value = { state: 'none' };
}

function tell(): void {
  tabs.postMessage('changed');
}
