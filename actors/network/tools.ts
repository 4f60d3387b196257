/** `/mcp`: messages of programs that act for people, which the tool server answers with the caller's own token. */

import { KeyedLimit } from '../../lib/concurrency.ts';
import { jsonOf, readAtMost } from '../../lib/input.ts';
import type { Upload } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import { MAX_TOOL_MESSAGE, MAX_TOOL_REQUESTS, toolMessageSchema, useTools } from '../../proto/network/tools.ts';
import { found } from '../service/dispatch.ts';
import { transferHandler } from '../service/start-service.ts';
import type { NetworkDeps } from './deps.ts';

const BEARER = /^bearer +(\S+) *$/i;

/** Answers them. */
export function toolTransfers({ tools }: Pick<NetworkDeps, 'tools'>) {
  const running = new KeyedLimit(MAX_TOOL_REQUESTS);
  return [
    transferHandler(useTools, async (call, upload, { userId }) => {
      // A cookie proves a person at a page, whom a program does not act for.
      const [, token] = BEARER.exec(upload.header('authorization') ?? '') ?? [];
      if (token === undefined) throw new Refusal('unauthorized');
      const over = running.enter(userId);
      if (over === undefined)
        throw new Refusal('limit_reached', {
          message: `${MAX_TOOL_REQUESTS} requests for tools at a time: wait for one.`,
        });
      try {
        const message = await messageOf(upload);
        const header = (name: string) => upload.header(name);
        const reply = await tools.answer({ token, address: call.address, message, header, signal: upload.signal });
        reply.bytes.once('close', over);
        return reply;
      } catch (error) {
        over();
        throw error;
      }
    }),
  ];
}

async function messageOf(upload: Upload): Promise<Record<string, unknown>> {
  const bytes = await readAtMost(upload.stream(), MAX_TOOL_MESSAGE);
  if (bytes === undefined)
    throw new Refusal('body_too_large', { message: `A message has at most ${MAX_TOOL_MESSAGE} bytes.` });
  const value = found(jsonOf(bytes.toString('utf8')), () => new Refusal('invalid_json'));
  const { data: message } = toolMessageSchema.safeParse(value);
  if (message === undefined)
    throw new Refusal('invalid_request', { message: 'The body is no message of JSON-RPC 2.0.' });
  return message;
}
