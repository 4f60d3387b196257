/** A file of the gateway's own as a stored response: sent in parts, as fast as its client takes them. */
import type { ProxyReply } from '../../../proto/gateway/traffic.ts';
import type { CachedAnswer } from './cache-hook.ts';
import { replyHead } from './write-heads.ts';

/** Nothing is counted: the bytes are held for as long as the gateway runs. */
const HOLD = () => () => {};

/** `bytes`: the body of `reply`, whose status is 200. */
export function ownFile(reply: ProxyReply, bytes: Buffer, method: string): CachedAnswer {
  const isBare = method === 'HEAD' || bytes.length === 0;
  return {
    status: 200,
    length: isBare ? 0 : bytes.length,
    wire: (keepAlive, minor) => {
      const head = Buffer.from(replyHead(reply, bytes.length, keepAlive, minor), 'latin1');
      return isBare ? [head] : [head, bytes];
    },
    hold: HOLD,
  };
}
