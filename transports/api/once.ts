/**
 * Requests with an Idempotency-Key: the first of them is answered by its service, and others get its answer. While the
 * first runs its process says so from time to time; where it no longer does, the next request takes over.
 */
import type { AnyEndpoint, Call } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import {
  type AnswerPlace,
  type FoundKey,
  isKept,
  KEY_HEADER,
  KEY_PATTERN,
  type KeptAnswer,
  type KeptAnswers,
  type KeyedRequest,
  RUNNING_MS,
} from '../../proto/kept-answers.ts';
import type { HttpRequest } from '../../proto/ports/http.ts';
import type { Log } from '../../proto/ports/log.ts';
import { invalidField } from '../../proto/validation-messages.ts';

/** When to ask again for a request that runs, seconds. */
const ASK_AGAIN = 2;

/** The key of a request, where the endpoint takes one. Refuses `invalid_request`. */
export function keyOf({ idempotent }: AnyEndpoint, request: HttpRequest): string | undefined {
  const key = idempotent === undefined ? undefined : request.header(KEY_HEADER);
  if (key !== undefined && !KEY_PATTERN.test(key))
    throw invalidField('Idempotency-Key', 'must be 1 to 255 visible ASCII characters');
  return key;
}

/** A key, and where its answer is kept. */
export interface KeptKey {
  readonly kept: KeptAnswers;
  readonly key: string;
}

/** A request with a key. */
interface OnceOptions extends KeptKey {
  readonly log: Log;
  readonly endpoint: AnyEndpoint;
  readonly call: Call;
}

/** What it is answered with. */
interface OnceAnswer {
  readonly outcome: { readonly value: unknown } | { readonly refused: Refusal };
  /** Whether another request was answered so before. */
  readonly isReplayed: boolean;
}

/**
 * The first answer under the key; `run` gets one where there is none. Rejects with what `run` rejects with, and with
 * Refusal: `idempotency_key_in_use`, `idempotency_key_reused`, `conflict`.
 */
export async function answerOnce(
  options: OnceOptions,
  run: (place: AnswerPlace) => Promise<unknown>,
): Promise<OnceAnswer> {
  const state = await looked(options, options.kept.begin(requestOf(options)));
  if (state.kind !== 'first') return replayOf(state);
  return { outcome: { value: await first(options, state.place, run) }, isReplayed: false };
}

/**
 * The first answer under the key for a request that may not begin; undefined where there is none. Writes nothing.
 * Rejects with Refusal as `answerOnce` does.
 */
export async function answeredBefore(options: OnceOptions): Promise<OnceAnswer | undefined> {
  const found = await looked(options, options.kept.find(requestOf(options)));
  return found === undefined ? undefined : replayOf(found);
}

function requestOf({ endpoint, call, key }: OnceOptions): KeyedRequest {
  if (call.caller === undefined) throw new Refusal('unauthorized');
  const { params, query, body } = call;
  const content = JSON.stringify([params, query, body]);
  return { userId: call.caller.userId, endpoint: endpoint.name, key, content };
}

function looked<T>({ log, call }: OnceOptions, state: Promise<T>): Promise<T> {
  return state.catch((cause: unknown) => {
    log.warn({ requestId: call.requestId, err: cause }, 'a request with a key could not begin');
    throw new Refusal('unavailable', { cause });
  });
}

function replayOf(state: FoundKey): OnceAnswer {
  switch (state.kind) {
    case 'answered':
      return { outcome: outcomeOf(state.answer), isReplayed: true };
    case 'running':
      throw new Refusal('idempotency_key_in_use', { retryAfter: ASK_AGAIN });
    case 'other_request':
      throw new Refusal('idempotency_key_reused');
    case 'unreadable':
      throw new Refusal('conflict', {
        message: 'The first answer under this Idempotency-Key can no longer be read: look at what there is.',
      });
  }
}

/** Runs the first request under a key, and keeps its answer. */
async function first(
  { kept, log, endpoint, call }: OnceOptions,
  place: AnswerPlace,
  run: (place: AnswerPlace) => Promise<unknown>,
): Promise<unknown> {
  // The answer to the client does not wait for a database that is away; the row then says how far the request came.
  const note = (work: Promise<void>) =>
    work.catch((error: unknown) => log.warn({ requestId: call.requestId, err: error }, 'an answer could not be kept'));
  const running = setInterval(() => void note(kept.renew(place)), RUNNING_MS / 3);
  running.unref();
  try {
    const value = await run(place);
    await note(kept.finish(place, { value }));
    return value;
  } catch (error) {
    const isAnswer = error instanceof Refusal && isKept(endpoint, error);
    await note(isAnswer ? kept.finish(place, { refused: detailOf(error) }) : kept.release(place));
    throw error;
  } finally {
    clearInterval(running);
  }
}

function detailOf({
  code,
  message,
  fields,
  retryAfter,
}: Refusal): Extract<KeptAnswer, { refused: unknown }>['refused'] {
  return {
    code,
    message,
    ...(fields === undefined ? {} : { fields: fields.map((field) => ({ ...field })) }),
    ...(retryAfter === undefined ? {} : { retryAfter }),
  };
}

function outcomeOf(answer: KeptAnswer): OnceAnswer['outcome'] {
  if (!('refused' in answer)) return { value: answer.value };
  const { code, ...detail } = answer.refused;
  return { refused: new Refusal(code, detail) };
}
