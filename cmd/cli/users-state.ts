/** `troupe users disable` and `enable`: whether a user may log in. They work beside a running platform. */
import { setTimeout as pause } from 'node:timers/promises';
import { disableUser, enableUser } from '../../actors/auth/users/user-state.ts';
import { untilSessions } from '../../storage/offboarding.ts';
import { type CommandOptions, onDatabase, print } from './command.ts';

/** Options as the command line gives them. */
export interface DisableOptions extends CommandOptions {
  readonly stop?: boolean;
}

/** Disables a user; with `stop` the platform stops their containers. Again does nothing more. */
export async function usersDisable(username: string, options: DisableOptions): Promise<void> {
  const { stop = false } = options;
  const { id, changed, containers } = await onDatabase(options, (db) => disableUser(db, username, { stop }));
  print(options, { id, username, state: 'disabled', changed, stopping: stop, containers }, () => {
    const state = changed ? 'is' : 'was already';
    const done = `${username} ${state} disabled: sessions have ended, tokens and keys open nothing.`;
    if (containers === 0) return done;
    const theirs = containers === 1 ? 'Their container' : `Their ${containers} containers`;
    const goes = containers === 1 ? 'goes' : 'go';
    return stop
      ? `${done}\n${theirs} ${containers === 1 ? 'is' : 'are'} stopped by the platform, within seconds while it runs.`
      : `${done}\n${theirs} ${goes} on running: add --stop to stop ${containers === 1 ? 'it' : 'them'}.`;
  });
}

/** Enables a user, and waits until a login counts. Again does nothing. */
export async function usersEnable(username: string, options: CommandOptions): Promise<void> {
  const { id, changed } = await onDatabase(options, async (db) => {
    const enabled = await enableUser(db, username);
    await pause(await untilSessions(db, enabled.id));
    return enabled;
  });
  print(options, { id, username, state: 'active', changed }, () =>
    changed
      ? `${username} may log in again. API tokens work as before; containers that were stopped stay so.`
      : `${username} was not disabled.`,
  );
}
