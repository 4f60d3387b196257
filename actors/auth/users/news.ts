/** Hears of users that were changed outside their actor (the command line), and tells the actor. */
import { userChanged } from '../../../proto/auth/endpoints.ts';
import type { StreamMessage } from '../../../proto/ports/bus.ts';
import { AUTH_CONSUMER, AUTH_STREAM } from '../../../proto/subjects.ts';
import type { AnyRef } from '../../../supervision/index.ts';
import { ownerActor } from '../../service/supervisor.ts';
import type { AuthDeps } from '../deps.ts';

/**
 * Starts the actor that owns the consumer. `onChange` gets the user's id. Rejects with BusError when it cannot listen.
 */
export async function startNews(
  parent: AnyRef,
  { bus }: AuthDeps,
  onChange: (userId: string) => void,
): Promise<AnyRef> {
  const handle = async (batch: readonly StreamMessage[]): Promise<void> => {
    for (const message of batch) {
      onChange(userChanged.userOf(message.subject));
      await message.ack();
    }
  };
  await bus.ensureStream(AUTH_STREAM);
  const consuming = await bus.consume(AUTH_STREAM.name, AUTH_CONSUMER, handle);
  return ownerActor(parent, 'auth', 'news', () => consuming.close());
}
