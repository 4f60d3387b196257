/** Throws away login attempts that the throttle has forgotten. */
import { purgeAttempts } from '../../storage/auth/attempts.ts';
import { type AnyRef, spawn } from '../../supervision/index.ts';
import type { AuthDeps } from './deps.ts';

const EVERY_MS = 3_600_000;

/** The actor that does it, every hour. A database that is away is left for the next time. */
export function startJanitor(parent: AnyRef, { db, log }: AuthDeps): AnyRef {
  return spawn<null, 'purge'>(
    parent,
    async () => {
      await purgeAttempts(db);
      return null;
    },
    {
      name: 'janitor',
      kind: 'auth/janitor',
      initialStateFunc: (ctx) => {
        ctx.every(EVERY_MS, 'purge');
        return null;
      },
      onCrash: (_message, error, ctx) => {
        log.warn({ err: error }, 'old login attempts could not be purged');
        return ctx.resume;
      },
    },
  );
}
