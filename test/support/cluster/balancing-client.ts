/** The client's side of several processes: one after the other, the next one when a connection breaks, as any balancer in front does. */
import { Agent, request as httpRequest } from 'node:http';
import { request as httpsRequest, Agent as TlsAgent } from 'node:https';
import { z } from 'zod';
import type { Cleanup } from '../temp.ts';

/** One who serves. */
export interface Target {
  readonly url: string;
}

export interface FrontRequest {
  readonly token?: string | undefined;
  readonly body?: unknown;
  /** Default 30,000. */
  readonly timeoutMs?: number;
  /** Only these are asked. Default: all. */
  readonly among?: readonly Target[];
  /** Asked again elsewhere, at most once a target, when a connection is reset or refused. Default true. */
  readonly retries?: boolean;
}

export interface FrontReply {
  readonly status: number;
  readonly json: Record<string, unknown>;
  readonly by: Target;
  /** Connections that broke before. */
  readonly resets: number;
  /** Those of them that were not taken at all. */
  readonly refused: number;
}

/** No answer: `reset` (the connection broke or was refused) or `timeout`. */
export class NoAnswer extends Error {
  readonly code: 'reset' | 'timeout';
  /** Nothing of the request can have been read. */
  readonly unsent: boolean;
  constructor(code: 'reset' | 'timeout', unsent: boolean, cause?: unknown) {
    super(`no answer: ${code}${cause instanceof Error ? ` (${cause.message})` : ''}`, { cause });
    this.name = 'NoAnswer';
    this.code = code;
    this.unsent = unsent;
  }
}

/** Asks the targets in turn. */
export interface Front {
  request(method: string, path: string, options?: FrontRequest): Promise<FrontReply>;
}

/** How long a connection that nobody uses is kept. */
const IDLE_MS = 1000;

/** A front over these targets; its connections end with `t`. `host`: the name that is asked for, where it is not the target's address. */
export function startFront(t: Cleanup, targets: readonly Target[] | (() => readonly Target[]), host?: string): Front {
  const plain = new Agent({ keepAlive: true, maxSockets: 256, timeout: IDLE_MS });
  // Gateways under test make their own certificates.
  const tls = new TlsAgent({
    keepAlive: true,
    maxSockets: 256,
    timeout: IDLE_MS,
    rejectUnauthorized: false,
    servername: host ?? '',
  });
  t.after(() => {
    plain.destroy();
    tls.destroy();
  });
  let turn = 0;
  return {
    async request(method, path, options = {}) {
      const { retries = true } = options;
      const all = () => options.among ?? (typeof targets === 'function' ? targets() : targets);
      turn += 1;
      // Of many requests at once each goes on to the next one of its own.
      const first = turn;
      let refused = 0;
      for (let resets = 0; ; resets++) {
        const among = all();
        const target = among[(first + resets) % among.length];
        if (target === undefined) throw new TypeError('there is nobody to ask');
        try {
          return {
            ...(await once(target.url.startsWith('https:') ? tls : plain, method, target, path, { ...options, host })),
            by: target,
            resets,
            refused,
          };
        } catch (error) {
          if (error instanceof NoAnswer && error.unsent) refused += 1;
          const again = retries && error instanceof NoAnswer && error.code === 'reset';
          if (!again || resets + 1 >= 2 * among.length) throw error;
        }
      }
    },
  };
}

function once(
  agent: Agent | TlsAgent,
  method: string,
  target: Target,
  path: string,
  { token, body, timeoutMs = 30_000, host }: FrontRequest & { readonly host: string | undefined },
): Promise<Pick<FrontReply, 'status' | 'json'>> {
  return new Promise((resolve, reject) => {
    const data = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    const headers = {
      ...(host === undefined ? {} : { host }),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(data === undefined ? {} : { 'content-type': 'application/json', 'content-length': data.length }),
    };
    const send = agent instanceof TlsAgent ? httpsRequest : httpRequest;
    const outgoing = send(new URL(path, target.url), { method, agent, headers });
    const timer = setTimeout(() => outgoing.destroy(new NoAnswer('timeout', false)), timeoutMs);
    const fail = (error: Error) => {
      clearTimeout(timer);
      if (error instanceof NoAnswer) reject(error);
      else reject(new NoAnswer('reset', 'code' in error && error.code === 'ECONNREFUSED', error));
    };
    outgoing.on('error', fail);
    outgoing.on('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', fail);
      response.on('aborted', () => fail(new Error('the answer was cut off')));
      response.on('end', () => {
        clearTimeout(timer);
        resolve({ status: response.statusCode ?? 0, json: parse(Buffer.concat(chunks).toString()) });
      });
    });
    outgoing.end(data);
  });
}

/** An object as it is; anything else under `value`. */
function parse(text: string): Record<string, unknown> {
  const value: unknown = text.startsWith('{') || text.startsWith('[') ? JSON.parse(text) : text;
  return z.record(z.string(), z.unknown()).catch({ value }).parse(value);
}

/** Runs `count` requests at once and counts their statuses; `make` is told which one it is. */
export async function race(count: number, make: (n: number) => Promise<FrontReply>): Promise<Map<number, number>> {
  const statuses = new Map<number, number>();
  const replies = await Promise.all(Array.from({ length: count }, (_, n) => make(n)));
  for (const { status } of replies) statuses.set(status, (statuses.get(status) ?? 0) + 1);
  return statuses;
}
