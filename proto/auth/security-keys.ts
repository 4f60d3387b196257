/** Security keys (WebAuthn) as a second factor: endpoints and views. */
import { z } from 'zod';
import { type Caller, endpoint } from '../endpoint.ts';

/** Most security keys of a user. */
export const MAX_SECURITY_KEYS = 20;

/**
 * Bytes as text of at most `max` characters: base64url as browsers give it, or standard base64, which means the same.
 */
const bytes = (max: number) =>
  z
    .string()
    .max(max)
    .regex(/^[A-Za-z0-9+/_-]+={0,2}$/, 'must be base64')
    .transform((text) => text.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, ''));

/** A credential id, base64url: 1 to 1023 bytes (WebAuthn, section 4). */
const credentialIdSchema = bytes(1364);

/** 0 to 64 characters, no control characters. */
const keyName = z
  .string()
  .max(256, 'must be at most 64 characters')
  .regex(/^[^\p{Cc}]*$/u, 'must not contain control characters')
  .refine((text) => [...text].length <= 64, 'must be at most 64 characters');

const stateSchema = z.string().min(1).max(4096);

const credential = {
  id: credentialIdSchema,
  rawId: credentialIdSchema.optional(),
  type: z.literal('public-key'),
  authenticatorAttachment: z.string().max(64).nullish(),
};

/**
 * What `credential.toJSON()` gives after `navigator.credentials.create` (WebAuthn, section 5.1.8), as far as it is
 * read; what the bytes mean is for whoever verifies them. The largest attestation without certificates is below 4 KiB.
 */
export const newCredentialSchema = z.object({
  ...credential,
  response: z.object({
    clientDataJSON: bytes(8192),
    attestationObject: bytes(32_768),
    transports: z.array(z.string().max(64)).max(16).nullish(),
  }),
});
export type NewCredential = z.output<typeof newCredentialSchema>;

/** The same after `navigator.credentials.get`. */
export const signedCredentialSchema = z.object({
  ...credential,
  response: z.object({
    clientDataJSON: bytes(8192),
    authenticatorData: bytes(8192),
    signature: bytes(4096),
    userHandle: z.union([z.literal(''), bytes(128)]).nullish(),
  }),
});
export type SignedCredential = z.output<typeof signedCredentialSchema>;

/** A security key, as it is shown. */
const keyView = z.object({ id: z.string(), name: z.string(), authenticator_type: z.string(), created_at: z.int() });

const descriptor = z.object({
  id: z.string(),
  type: z.literal('public-key'),
  transports: z.array(z.string()).optional(),
});

const WITHOUT_PROOF = ['proof_needed', 'wrong_password', 'too_many_attempts'] as const;

const common = { service: 'auth', access: 'session', actor: { kind: 'auth/user', key: 'caller' } } as const;

/**
 * How long after a login its session proves who is there, seconds; after that a change of the keys wants the password.
 */
export const RECENT_LOGIN_SECONDS = 600;

/**
 * Whether the caller's session proves at `now` (Unix ms) who is there: it began with a login of the last ten minutes.
 * Sessions of SSH keys begin with each command, and prove nothing; nor do those of programs that an older
 * login approved.
 */
export function isRecentLogin({ session, via }: Caller, now: number): boolean {
  return session !== undefined && via === undefined && now / 1000 - session.issuedAt <= RECENT_LOGIN_SECONDS;
}

/** Not needed within ten minutes of the login. The lengths only bound the work. */
const password = z.string().max(1024).optional();

/** The token of the first factor is spent by this call. */
export const beginKeyLogin = endpoint('beginKeyLogin', 'POST /api/webauthn/login/begin', {
  service: 'auth',
  summary: 'Second factor: what the browser is to sign',
  access: 'challenge',
  reply: z.object({
    options: z.object({
      challenge: z.string(),
      timeout: z.literal(60_000),
      rpId: z.string(),
      allowCredentials: z.array(descriptor),
    }),
    state: z.string(),
  }),
  refuses: ['forbidden'],
  actor: { kind: 'auth/login', key: 'none' },
});

export const finishKeyLogin = endpoint('finishKeyLogin', 'POST /api/webauthn/login/finish', {
  service: 'auth',
  summary: 'Second factor: what the browser signed',
  access: 'none',
  body: z.object({ state: stateSchema, credential: signedCredentialSchema }),
  reply: z.object({
    username: z.string(),
    display_name: z.string(),
    user_id: z.string(),
    is_admin: z.boolean(),
    token: z.string(),
  }),
  refuses: ['invalid_credential', 'forbidden'],
  actor: { kind: 'auth/login', key: 'none' },
  session: 'begins',
});

export const listKeys = endpoint('listKeys', 'GET /api/settings/keys', {
  ...common,
  summary: 'Security keys',
  reply: z.object({ keys: z.array(keyView) }),
});

export const beginAddKey = endpoint('beginAddKey', 'POST /api/settings/keys/add/begin', {
  ...common,
  notByKey: true,
  summary: 'What the browser is to make a new security key with',
  reply: z.object({
    options: z.object({
      challenge: z.string(),
      rp: z.object({ name: z.string(), id: z.string() }),
      user: z.object({ id: z.string(), name: z.string(), displayName: z.string() }),
      pubKeyCredParams: z.array(z.object({ type: z.literal('public-key'), alg: z.int() })),
      timeout: z.literal(60_000),
    }),
    state: z.string(),
  }),
  refuses: ['limit_reached'],
});

export const finishAddKey = endpoint('finishAddKey', 'POST /api/settings/keys/add/finish', {
  ...common,
  notByKey: true,
  summary: 'Add the security key that the browser made',
  body: z.object({ state: stateSchema, credential: newCredentialSchema, name: keyName.default(''), password }),
  refuses: ['conflict', 'limit_reached', ...WITHOUT_PROOF],
});

export const deleteKey = endpoint('deleteKey', 'POST /api/settings/keys/delete', {
  ...common,
  notByKey: true,
  rateLimit: 'removal',
  summary: 'Delete a security key',
  body: z.object({ id: credentialIdSchema, password }),
  refuses: ['not_found', ...WITHOUT_PROOF],
});

export const renameKey = endpoint('renameKey', 'POST /api/settings/keys/rename', {
  ...common,
  notByKey: true,
  summary: 'Rename a security key',
  body: z.object({ id: credentialIdSchema, name: keyName }),
  refuses: ['not_found'],
});

/** All endpoints of this file. */
export const securityKeyEndpoints = [
  beginKeyLogin,
  finishKeyLogin,
  listKeys,
  beginAddKey,
  finishAddKey,
  deleteKey,
  renameKey,
] as const;
