/**
 * What stands in Troupe's tokens. All kinds are signed with the one shared secret, so a valid signature alone opens
 * nothing: the kind is a claim and every reader checks it.
 */
import { z } from 'zod';
import type { Caller, SessionBirth } from '../endpoint.ts';
import { idSchema } from '../ids.ts';
import type { Ending } from '../ports/ending.ts';
import type { Scopes } from '../scopes.ts';
import type { CatalogAccess, RepositoryAccess } from './registry.ts';

/** Longest token anybody verifies; ours are below 1 KiB. */
export const MAX_TOKEN_LENGTH = 4096;

/** What an API token begins with, so that people and scanners know it. */
export const API_TOKEN_PREFIX = 'svc_';

/** How long challenge tokens and WebAuthn states live, seconds. */
export const CHALLENGE_SECONDS = 300;

/** How long a registry token lives, seconds. */
export const REGISTRY_TOKEN_SECONDS = 300;

/** How long what an API token may do is believed without looking again, ms. */
export const SCOPE_CACHE_MS = 300_000;

const common = { user_id: idSchema, jti: z.string().min(1).max(64), iat: z.number() };

/** The user's epoch (`SessionBirth`). Tokens of older versions have none. */
const epochSchema = z.int().default(0);

/** Claims of a session token. `IsAdmin` is spelt as other services read it. */
export const sessionClaimsSchema = z.object({
  type: z.literal('session'),
  ...common,
  username: z.string().min(1).max(256),
  IsAdmin: z.boolean(),
  exp: z.number(),
  epoch: epochSchema,
  /** What logged in, where that limits the session (`Caller.via`). A session of an unknown kind proves nobody. */
  via: z.enum(['ssh_key', 'device']).optional(),
});
export type SessionClaims = z.input<typeof sessionClaimsSchema>;

/** Claims of the token between password and security key: it opens `/api/webauthn/login/begin` and nothing else. */
export const challengeClaimsSchema = z.object({
  type: z.literal('challenge'),
  ...common,
  username: z.string().min(1).max(256),
  exp: z.number(),
  epoch: epochSchema,
});
export type ChallengeClaims = z.input<typeof challengeClaimsSchema>;

/** Claims of an API token, behind its prefix. Storage has its scopes under `jti`; without `exp` it never expires. */
export const apiTokenClaimsSchema = z.object({ type: z.literal('api_token'), ...common, exp: z.number().optional() });
export type ApiTokenClaims = z.output<typeof apiTokenClaimsSchema>;

/**
 * Who was given a registry token, so that it ends with what it was given for: an API token by its id, or a user with
 * the session or the password that they showed.
 */
export type RegistryHolder =
  | { readonly token: string }
  | {
      readonly user: string;
      /** Id of the session; empty for a password. */
      readonly session: string;
      /** When it began, Unix seconds, and the user's epoch then. */
      readonly since: number;
      readonly epoch: number;
    };

/** Claims of a registry token (CNCF Distribution's token specification). Without a user id it opens nothing of ours. */
export interface RegistryClaims {
  readonly type: 'registry';
  readonly iss: string;
  /** The user, of a service account the one it belongs to; empty for anybody. */
  readonly sub: string;
  /** The registry. */
  readonly aud: string;
  readonly exp: number;
  readonly nbf: number;
  readonly iat: number;
  readonly jti: string;
  readonly access: readonly (RepositoryAccess | CatalogAccess)[];
  /** Nobody: the platform itself, anybody, and nodes that pull. */
  readonly holder?: RegistryHolder;
}

/** An API token as storage knows it now. */
export interface TokenGrant {
  readonly userId: string;
  readonly username: string;
  /** Its own scopes, or those its service account has now. */
  readonly scopes: Scopes;
  readonly serviceAccountId: string | null;
  /** Name of the service account; null without one. */
  readonly serviceAccount: string | null;
  /** Unix seconds; 0 when it never expires. */
  readonly expiresAt: number;
}

/** What changed about tokens. `all`: news may have been missed. */
export type TokenNews = { readonly kind: 'token' | 'account' | 'user'; readonly id: string } | { readonly kind: 'all' };

/** What is known of tokens beyond their signature. Its calls reject with StorageError. */
export interface TokenDirectory {
  /** The token as it is now; undefined when it is unknown, deleted or expired, or its user is disabled. */
  grant(tokenId: string): Promise<TokenGrant | undefined>;
  /** Whether there is such a user who may be logged in by that session: nothing has ended it since it began. */
  knowsUser(userId: string, session: SessionBirth & { readonly tokenId: string }): Promise<boolean>;
  /** Calls `handler` within a second of every change, on every node. */
  onNews(handler: (news: TokenNews) => void): Ending;
}

/**
 * Proves who calls: the caller, or undefined when the token proves nobody. Without a promise when the token was seen
 * before. Rejects with Refusal `unavailable` when storage must be asked and cannot be.
 */
export type Authenticate = (token: string) => Caller | undefined | Promise<Caller | undefined>;

/** Follows tokens on behalf of what they opened. */
export interface TokenWatch {
  /**
   * Calls `onEnd` with a reason for people, within a second, when the caller's token no longer opens what needed
   * `scope`. Returns what ends the watch.
   */
  watch(caller: Caller, scope: NeededScope | undefined, onEnd: (reason: string) => void): () => void;
}

/** The scope that opened a stream. */
export interface NeededScope {
  readonly key: string;
  readonly action: string;
}
