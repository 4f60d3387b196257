/** The authentication service: its endpoints, who answers them, and its supervision tree. */
import { authEndpoints } from '../../proto/auth.ts';
import { Refusal } from '../../proto/errors.ts';
import type { StreamMessage } from '../../proto/ports.ts';
import type { Service } from '../../proto/service.ts';
import { AUTH_CONSUMER, AUTH_STREAM } from '../../proto/subjects.ts';
import {
  type AnyRef,
  entities,
  query,
  type Ref,
  type SystemRef,
  spawnStateless,
  startSupervisor,
} from '../../supervision/index.ts';
import { ASK_TIMEOUT, actorKey, answer, type CallMessage, callThrough } from '../door.ts';
import type { AuthDeps } from './deps.ts';
import { loginHandlers } from './login.ts';
import { userKind } from './user.ts';

/** Logins worked on at once; the hashes among them wait for a core of their own. */
const LOGIN_CONCURRENCY = 64;

/** Starts the service under `system`. `stop` ends it in reverse order. */
export async function startAuth(system: SystemRef, deps: AuthDeps): Promise<Service & { stop(): Promise<void> }> {
  const table = loginHandlers(deps);
  const kind = userKind(deps);

  const tree = await startSupervisor(system, {
    name: 'auth',
    strategy: 'one-for-one',
    intensity: { max: 10, withinMs: 10_000 },
    children: [
      { id: 'login', restart: 'permanent', shutdownMs: 5000, start: (parent) => (loginDesk = startLogin(parent)) },
      { id: 'users', restart: 'permanent', shutdownMs: 5000, start: (parent) => (users = entities(parent, kind)).ref },
    ],
  });

  await deps.bus.ensureStream(AUTH_STREAM);
  const consumer = await deps.bus.consume(AUTH_STREAM.name, AUTH_CONSUMER, async (batch: readonly StreamMessage[]) => {
    for (const message of batch) {
      users.tell(message.subject.split('.')[2] ?? '', { type: 'changed' });
      await message.ack();
    }
  });
}
