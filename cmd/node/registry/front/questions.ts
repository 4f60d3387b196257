/**
 * What core asks the registry front: what its disk takes, and what a user has there. A token of the registry's own key,
 * which core alone has, proves it: good for half a minute and for one question, and for nothing at the registry itself.
 */
import { jwtVerify, SignJWT } from 'jose';
import { z } from 'zod';
import type { RegistryKey } from '../../../../actors/auth/registry/registry-key.ts';
import { errorText } from '../../../../lib/errors.ts';
import { jsonOf } from '../../../../lib/input.ts';
import { Refusal } from '../../../../proto/errors.ts';
import type { ProxyReply, ProxyRequest } from '../../../../proto/gateway/traffic.ts';
import type { HostedRegistry } from '../../../../proto/ports/local-registry.ts';
import type { Log } from '../../../../proto/ports/log.ts';
import type { TokenKeys } from '../token-keys.ts';

const ROOM_PATH = '/troupe/room';
const USAGE_PATH = '/troupe/usage';
/** The header's `typ`, and how long a token is good, seconds. */
const TYPE = 'registry-question';
const TOKEN_SECONDS = 30;
/** How long core waits for its room: whoever logs in waits with it. And for what a user has, which is counted. ms */
const ROOM_MS = 1500;
const USAGE_MS = 5000;

const roomSchema = z.object({ room: z.enum(['enough', 'little', 'none']) });
const usageSchema = z.object({ used: z.number(), limit: z.number().nullable() });

const NOT_COUNTED = 'The images are in a bucket, and the registry front does not have its keys: nobody counts them.';

/** The front does not know. */
class UnknownQuestion extends Error {
  override readonly message = 'the images are in a bucket that the registry front does not see';
}

/** No registry takes a token for this audience. */
const audienceOf = (host: string): string => `${host}${USAGE_PATH}`;

/** What core asks with. */
interface Questioner {
  /** `host:port` of the front. */
  readonly address: string;
  /** The registry, as images name it. */
  readonly host: string;
  readonly key: RegistryKey;
  readonly log: Log;
}

/**
 * Asks the front at an address. Its room counts as enough while it does not answer: it, and the registry, refuse
 * themselves what the disk does not take. What a user has is refused as `unavailable` then.
 */
export function askFront(options: Questioner): Pick<HostedRegistry, 'room' | 'usage'> {
  return {
    room: async () => {
      try {
        return roomSchema.parse(await ask(options, ROOM_PATH, ROOM_MS)).room;
      } catch (error) {
        options.log.warn({ err: error }, 'the registry front does not tell what its disk takes');
        return 'enough';
      }
    },
    usage: async (username) => {
      try {
        const path = `${USAGE_PATH}?user=${encodeURIComponent(username)}`;
        const { used, limit } = usageSchema.parse(await ask(options, path, USAGE_MS));
        return { used, limit: limit ?? undefined };
      } catch (cause) {
        if (cause instanceof UnknownQuestion) throw new Refusal('not_found', { message: NOT_COUNTED });
        options.log.warn({ err: cause }, 'the registry front does not tell what a user has');
        throw new Refusal('unavailable', { message: 'The image registry does not answer now. Try again in a moment.' });
      }
    },
  };
}

async function ask({ address, host, key, log }: Questioner, path: string, ms: number): Promise<unknown> {
  const { kid, chain } = key;
  const now = Math.floor(Date.now() / 1000);
  const claims = { sub: path, aud: audienceOf(host), iat: now, exp: now + TOKEN_SECONDS };
  const header = { alg: 'ES256', typ: TYPE, kid, ...(chain.length === 0 ? {} : { x5c: [...chain] }) };
  const token = await new SignJWT(claims).setProtectedHeader(header).sign(key.privateKey);
  const response = await fetch(`http://${address}${path}`, {
    headers: { authorization: `Bearer ${token}` },
    redirect: 'error',
    signal: AbortSignal.timeout(ms),
  });
  const text = await response.text();
  if (response.status === 404) throw new UnknownQuestion();
  if (!response.ok) throw new Error(`it answers ${response.status} ${text.trim()}`);
  log.debug({ path }, 'asked the registry front');
  return jsonOf(text);
}

/** What the front answers from. */
interface AnswerOptions {
  /** Undefined: the images are in a bucket. */
  readonly room: HostedRegistry['room'] | undefined;
  /** Undefined: they are not seen from here. */
  readonly usage: HostedRegistry['usage'] | undefined;
  readonly keys: TokenKeys;
  readonly host: string;
  readonly log: Log;
}

/** Answers such a question; undefined for a request that is none. */
export function answersOf({ keys, host, room, usage, log }: AnswerOptions) {
  const answer = async (path: string, query: string): Promise<ProxyReply> => {
    if (path === ROOM_PATH && room !== undefined) return reply(200, { room: await room() });
    if (path === ROOM_PATH || usage === undefined) return reply(404, { error: 'The images are in a bucket.' });
    const user = new URLSearchParams(query).get('user') ?? '';
    // It becomes the name of a folder.
    if (!/^[a-z0-9][a-z0-9._-]*$/.test(user)) return reply(400, { error: 'user must be the name of a user.' });
    const { used, limit = null } = await usage(user);
    return reply(200, { used, limit });
  };
  return (request: Pick<ProxyRequest, 'method' | 'target' | 'field'>): Promise<ProxyReply> | undefined => {
    const { method, target } = request;
    const [path = '', query = ''] = target.split('?', 2);
    if (method !== 'GET' || (path !== ROOM_PATH && path !== USAGE_PATH)) return undefined;
    return (async () => {
      if (!(await isAsked(keys, host, target, request.field('authorization')))) {
        return reply(401, { error: 'This is for the platform alone.' });
      }
      try {
        return await answer(path, query);
      } catch (error) {
        log.warn({ err: error }, 'a question of the platform cannot be answered');
        return reply(503, { error: errorText(error) });
      }
    })();
  };
}

/** Whether a token of the platform came along, for this very question. */
async function isAsked(
  keys: TokenKeys,
  host: string,
  target: string,
  authorization: string | undefined,
): Promise<boolean> {
  const token = /^bearer +([^\s,]+)$/i.exec(authorization ?? '')?.[1];
  if (token === undefined) return false;
  try {
    const options = {
      typ: TYPE,
      algorithms: ['ES256'],
      audience: audienceOf(host),
      subject: target,
      requiredClaims: ['exp'],
      clockTolerance: 60,
    };
    await jwtVerify(token, keys, options);
    return true;
  } catch {
    return false;
  }
}

function reply(status: number, body: object): ProxyReply {
  return { status, contentType: 'application/json', body: `${JSON.stringify(body)}\n` };
}
