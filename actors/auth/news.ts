/** Hears of users that were changed outside their actor (the command line), and tells the actor. */
import { userChanged } from '../../proto/auth.ts';
import type { Ending, StreamMessage } from '../../proto/ports.ts';
import { AUTH_CONSUMER, AUTH_STREAM } from '../../proto/subjects.ts';
import { type AnyRef, spawn } from '../../supervision/index.ts';
import type { AuthDeps } from './deps.ts';

/** The actor that owns the consumer. `onChange` gets the user's id. */
export function startNews(parent: AnyRef, { bus }: AuthDeps, onChange: (userId: string) => void): AnyRef {
  const handle = async (batch: readonly StreamMessage[]): Promise<void> => {
    for (const message of batch) {
      onChange(userChanged.userOf(message.subject));
      await message.ack();
    }
  };
  return spawn<Ending, never>(parent, (ending) => ending, {
    name: 'news',
    kind: 'auth/news',
    initialStateFunc: async () => {
      await bus.ensureStream(AUTH_STREAM);
      return bus.consume(AUTH_STREAM.name, AUTH_CONSUMER, handle);
    },
    // None when it could not begin.
    afterStop: (ending: Ending | undefined) => ending?.close(),
  });
}
