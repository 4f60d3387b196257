/**
 * SQL of answers that are kept under keys of clients. A row begins when a request begins. Its answer is written in the
 * transaction of what the request makes, so there is never one without the other.
 */
import { createHash, createHmac, createSecretKey, type KeyObject, randomBytes, randomUUID } from 'node:crypto';
import { z } from 'zod';
import { derivedKeyring, type SharedSecret } from '../proto/auth/shared-secret.ts';
import {
  type AnswerPlace,
  type FoundKey,
  KEPT_SECONDS,
  type KeptAnswer,
  type KeptAnswers,
  type KeyedRequest,
  type KeyState,
  keptAnswerSchema,
  RUNNING_MS,
} from '../proto/kept-answers.ts';
import type { Db, Queries, Tx } from './db.ts';
import { columnsOf, oneValue } from './rows.ts';
import { open, openedOrNone, seal } from './seal.ts';

/** Most answers of a user: past it the oldest go before their day is over. */
const MAX_OF_USER = 1000;
/** Each answer has a key of its own, so the place needs no name. */
const ANSWER_CONTEXT = 'idempotency_keys/answer';
const RUNS = `now() + make_interval(secs => ${RUNNING_MS / 1000})`;
const OLD = `created_at < now() - make_interval(secs => ${KEPT_SECONDS})`;

const keyRow = z.object({
  id: z.number(),
  claim: z.string(),
  keyId: z.string(),
  sealedKey: z.instanceof(Buffer),
  fingerprint: z.instanceof(Buffer),
  answer: z.instanceof(Buffer).nullable(),
  isRunning: z.boolean(),
});

type AnswerKeyring = ReturnType<typeof derivedKeyring>;

/** A key whose process died, with what seals its answer. */
interface Abandoned {
  readonly kind: 'abandoned';
  readonly id: number;
  readonly claim: string;
  readonly dataKey: KeyObject;
}

/** The answers in `db`; their keys are sealed with a key of `secret` (JWT_SECRET). */
export function keptAnswers(db: Db, secret: SharedSecret): KeptAnswers {
  const keyring = derivedKeyring(secret, 'kept answers');
  return {
    find: async (request) => {
      const found = await find(db, keyring, request);
      return found?.kind === 'abandoned' ? undefined : found;
    },
    begin: (request) => begin(db, keyring, request),
    renew: async ({ id, claim }) => {
      await db.run(
        `update idempotency_keys set running_until = ${RUNS}
         where id = $1 and claim = $2 and running_until is not null`,
        [id, claim],
      );
    },
    finish: async (place, answer) => {
      const finish = 'update idempotency_keys set answer = $3, running_until = null where id = $1 and claim = $2';
      await db.run(finish, [place.id, place.claim, sealed(place, answer)]);
    },
    release: async ({ id, claim }) => {
      const own = [id, claim];
      if ((await db.run('delete from idempotency_keys where id = $1 and claim = $2 and answer is null', own)) > 0)
        return;
      await db.run('update idempotency_keys set running_until = null where id = $1 and claim = $2', own);
    },
  };
}

/**
 * Keeps the answer of a call with what it makes, in the same transaction. False when another process has taken the key
 * over: then nothing may be made.
 */
export async function keepAnswer(tx: Tx, place: AnswerPlace, answer: KeptAnswer): Promise<boolean> {
  const keep = 'update idempotency_keys set answer = $3 where id = $1 and claim = $2 and answer is null';
  return (await tx.run(keep, [place.id, place.claim, sealed(place, answer)])) > 0;
}

/** Forgets answers whose day is over. Returns how many went. */
export function purgeKeptAnswers(db: Queries): Promise<number> {
  return db.run(`delete from idempotency_keys where ${OLD}`);
}

async function begin(db: Db, keyring: AnswerKeyring, request: KeyedRequest): Promise<KeyState> {
  const { userId, endpoint, content } = request;
  const { keyHash, context } = namesOf(request);
  const [{ id: keyId, key: sealingKey }] = keyring;
  const dataKey = createSecretKey(randomBytes(32));
  const claim = randomUUID();
  const made = await oneValue(
    db,
    z.number(),
    `insert into idempotency_keys (user_id, endpoint, key_hash, key_id, sealed_key, fingerprint, claim, running_until)
       values ($1, $2, $3, $4, $5, $6, $7, ${RUNS})
     on conflict (user_id, endpoint, key_hash) do update set key_id = excluded.key_id, sealed_key = excluded.sealed_key,
       fingerprint = excluded.fingerprint, claim = excluded.claim, running_until = excluded.running_until,
       answer = null, created_at = now()
       where idempotency_keys.${OLD} and coalesce(idempotency_keys.running_until < now(), true)
     returning id`,
    [userId, endpoint, keyHash, keyId, seal(sealingKey, context, dataKey.export()), print(dataKey, content), claim],
  );
  if (made !== undefined) {
    await dropOldest(db, userId);
    return first(made, claim, dataKey);
  }
  // When it went between the two statements, whoever asks again finds it free.
  const found = (await find(db, keyring, request)) ?? ({ kind: 'running' } as const);
  if (found.kind !== 'abandoned') return found;
  // Its process died before anything was made.
  const taken = await db.run(
    `update idempotency_keys set claim = $3, running_until = ${RUNS}
     where id = $1 and claim = $2 and answer is null and coalesce(running_until < now(), true)`,
    [found.id, found.claim, claim],
  );
  return taken > 0 ? first(found.id, claim, found.dataKey) : { kind: 'running' };
}

/** What there is under a key whose day is not over. Writes nothing. */
async function find(
  db: Queries,
  keyring: AnswerKeyring,
  request: KeyedRequest,
): Promise<FoundKey | Abandoned | undefined> {
  const { userId, endpoint, content } = request;
  const { keyHash, context } = namesOf(request);
  const row = await db.one(
    keyRow,
    `select ${columnsOf(keyRow, { isRunning: 'coalesce(running_until > now(), false)' })}
     from idempotency_keys where user_id = $1 and endpoint = $2 and key_hash = $3
       and not (${OLD} and coalesce(running_until < now(), true))`,
    [userId, endpoint, keyHash],
  );
  if (row === undefined) return undefined;
  const named = keyring.find(({ id }) => id === row.keyId);
  const keyBytes = named && openedOrNone(named.key, context, row.sealedKey);
  if (keyBytes === undefined) return { kind: 'unreadable' };
  const opened = createSecretKey(keyBytes);
  if (!print(opened, content).equals(row.fingerprint)) return { kind: 'other_request' };
  if (row.isRunning) return { kind: 'running' };
  if (row.answer !== null) {
    const text = open(opened, ANSWER_CONTEXT, row.answer).toString();
    return { kind: 'answered', answer: keptAnswerSchema.parse(JSON.parse(text)) };
  }
  return { kind: 'abandoned', id: row.id, claim: row.claim, dataKey: opened };
}

/** What the database knows a key by, and the context of its seal. */
function namesOf({ userId, endpoint, key }: KeyedRequest): { readonly keyHash: Buffer; readonly context: string } {
  const keyHash = createHash('sha256').update(key).digest();
  return { keyHash, context: `idempotency_keys/${userId}/${endpoint}/${keyHash.toString('hex')}/key` };
}

async function dropOldest(db: Db, userId: string): Promise<void> {
  await db.run(
    `delete from idempotency_keys where coalesce(running_until < now(), true) and id in
       (select id from idempotency_keys where user_id = $1 order by created_at desc, id desc offset ${MAX_OF_USER})`,
    [userId],
  );
}

function first(id: number, claim: string, dataKey: KeyObject): KeyState {
  return { kind: 'first', place: { id, claim, key: dataKey.export().toString('base64') } };
}

/** Keyed, since the content may hold a password that could be guessed. */
function print(dataKey: KeyObject, content: string): Buffer {
  return createHmac('sha256', dataKey).update(content).digest();
}

function sealed({ key }: AnswerPlace, answer: KeptAnswer): Buffer {
  const text = JSON.stringify(answer);
  return seal(createSecretKey(Buffer.from(key, 'base64')), ANSWER_CONTEXT, Buffer.from(text));
}
