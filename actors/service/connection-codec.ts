/** What an entity tells a connection that is on another node. */
import { z } from 'zod';
import type { AnyRef } from '../../supervision/index.ts';
import { type Codec, field } from '../../supervision/placement/index.ts';
import type { ConnectionMessage } from './connection.ts';

const said = z.discriminatedUnion('type', [
  z.object({ type: z.literal('close'), code: z.int(), reason: z.string() }),
  z.object({ type: z.literal('send'), text: z.string() }),
]);

/** For an actor that is only watched from elsewhere: nothing can be sent to it. */
export const watchedOnly: Codec<never> = {
  encode: () => {
    throw new TypeError('this actor takes no messages from other nodes');
  },
  decode: () => {
    throw new TypeError('this actor takes no messages from other nodes');
  },
};

/** The codec of what crosses: that the connection is known, what it is to send, and that it is to close. */
export const connectionCodec: Codec<ConnectionMessage> = {
  encode(message, refs) {
    switch (message.type) {
      case 'close':
        return { type: 'close', code: message.code, reason: message.reason };
      case 'send':
        return { type: 'send', text: message.text };
      case 'attached':
        return { type: 'attached', by: refs.out<never>(message.by, watchedOnly) };
      default:
        throw new TypeError(`a connection tells itself ${message.type}, nobody else does`);
    }
  },
  decode(wire, refs): ConnectionMessage {
    if (field(wire, 'type') !== 'attached') return said.parse(wire);
    const by: AnyRef = refs.in<never>(field(wire, 'by'), watchedOnly);
    return { type: 'attached', by };
  },
};
