/** Users of the auth service, wherever they are awake: what they are told from other nodes, and by their timers. */
import { z } from 'zod';
import { authEndpoints } from '../../../proto/auth/endpoints.ts';
import { REMOVAL } from '../../../storage/offboarding.ts';
import type { Ref } from '../../../supervision/index.ts';
import { field, type PlacedKind } from '../../../supervision/placement/index.ts';
import { callCodec } from '../../service/codecs.ts';
import type { CallMessage } from '../../service/dispatch.ts';

/** What the actor of a user understands. */
export type AuthUserMessage =
  | CallMessage
  | { readonly type: 'changed' }
  /** Its timer: the user is being removed. */
  | { readonly type: 'forget'; readonly tries: number; readonly done: Ref<'done'> };

const calls = callCodec(authEndpoints.filter(({ actor }) => actor.kind === REMOVAL.kind));

/** Users, wherever they are awake. */
export const AUTH_USER: PlacedKind<AuthUserMessage> = {
  kind: REMOVAL.kind,
  service: REMOVAL.service,
  codec: {
    encode(message, refs) {
      if (message.type === 'forget') throw new TypeError('a timer comes where its user is');
      return message.type === 'call' ? calls.encode(message, refs) : { type: message.type };
    },
    decode: (wire, refs) => (field(wire, 'type') === 'changed' ? { type: 'changed' } : calls.decode(wire, refs)),
  },
  timer: ({ message }, done) => ({ type: 'forget', tries: z.int().parse(message), done }),
};
