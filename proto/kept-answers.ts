/**
 * Answers that are kept under a key of the client's, so that a request which is sent again makes nothing twice
 * (draft-ietf-httpapi-idempotency-key-header): docs/reference/idempotency.md.
 */
import { z } from 'zod';
import { ERRORS, type ErrorCode, type Refusal } from './errors.ts';

/** The header of a request with a key, and the one of an answer that was kept. Lower case. */
export const KEY_HEADER = 'idempotency-key';
export const REPLAYED_HEADER = 'idempotency-replayed';

/** What a key looks like: visible ASCII. */
export const KEY_PATTERN = /^[\x21-\x7e]{1,255}$/;

/** How long an answer is kept, seconds. */
export const KEPT_SECONDS = 86_400;

/** How long a request counts as running after its process last said so, ms. */
export const RUNNING_MS = 10_000;

/** Where the answer of one call is kept. Goes with the call to whoever makes something. */
export interface AnswerPlace {
  readonly id: number;
  /** Whose turn it is: what another process has taken over can no longer be written by this one. */
  readonly claim: string;
  /** What the answer is sealed with, base64: it may hold a secret that is shown once. */
  readonly key: string;
}

const codeSchema = z.custom<ErrorCode>((value) => typeof value === 'string' && Object.hasOwn(ERRORS, value));

/** An answer: a reply's value, or a refusal. */
export const keptAnswerSchema = z.union([
  z.object({
    refused: z.object({
      code: codeSchema,
      message: z.string(),
      fields: z.array(z.object({ path: z.string(), message: z.string() })).exactOptional(),
      retryAfter: z.number().exactOptional(),
    }),
  }),
  z.object({ value: z.unknown() }),
]);
export type KeptAnswer = z.output<typeof keptAnswerSchema>;

/** A request with a key. */
export interface KeyedRequest {
  readonly userId: string;
  readonly endpoint: string;
  readonly key: string;
  /** All that makes it this request: path, query and body. */
  readonly content: string;
}

/** What there is under a key: its answer, or why there is none. `unreadable`: the secret that sealed it is gone. */
export type FoundKey =
  | { readonly kind: 'answered'; readonly answer: KeptAnswer }
  | { readonly kind: 'running' | 'other_request' | 'unreadable' };

/** The same, or nothing, so that the request begins now. */
export type KeyState = { readonly kind: 'first'; readonly place: AnswerPlace } | FoundKey;

/** The answers of all processes. */
export interface KeptAnswers {
  /** What there is under a key. Undefined when a request would begin with it; this one does not, and writes nothing. */
  find(request: KeyedRequest): Promise<FoundKey | undefined>;
  begin(request: KeyedRequest): Promise<KeyState>;
  /** Says that the request still runs. */
  renew(place: AnswerPlace): Promise<void>;
  /** Keeps the answer that the client gets. */
  finish(place: AnswerPlace, answer: KeptAnswer): Promise<void>;
  /** Keeps none, unless something was made: then the answer that was kept with it stays. */
  release(place: AnswerPlace): Promise<void>;
}

/**
 * Whether a refusal of an endpoint is kept: not what was refused before any work, and not what may go well the next
 * time. No limit bounds how many removals are refused, so theirs would drive out the answers of changes.
 */
export function isKept({ rateLimit }: { readonly rateLimit?: string | undefined }, { code, proof }: Refusal): boolean {
  const { status } = ERRORS[code];
  return (
    rateLimit !== 'removal' && proof === undefined && status < 500 && status !== 401 && status !== 403 && status !== 429
  );
}
