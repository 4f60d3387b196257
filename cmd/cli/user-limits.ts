/** `troupe users limits`: how much one user may have. */
import { changeLimits } from '../../actors/auth/users/limits.ts';
import { limitImages } from '../../actors/auth/users/users.ts';
import { LIMIT_NAMES, type LimitChanges, limitOption, USER_LIMITS, type UserLimit } from '../../proto/user-limits.ts';
import { CliError } from '../config/cli-error.ts';
import { readEnvironment } from '../config/config.ts';
import { type CommandOptions, onDatabase, print, tableLines } from './command.ts';
import { imagesLimit } from './users.ts';

/** Options as the command line gives them. */
export interface LimitOptions extends CommandOptions {
  readonly containers?: string;
  readonly sshKeys?: string;
  readonly images?: string;
  readonly terminals?: string;
  readonly commands?: string;
  readonly logSockets?: string;
  readonly updateSockets?: string;
  readonly notificationSockets?: string;
}

/** Changes what the options name, and prints what holds then. */
export async function usersLimits(username: string, options: LimitOptions): Promise<void> {
  const given: Readonly<Record<UserLimit, string | undefined>> = {
    containers: options.containers,
    ssh_keys: options.sshKeys,
    terminals: options.terminals,
    commands: options.commands,
    log_sockets: options.logSockets,
    update_sockets: options.updateSockets,
    notification_sockets: options.notificationSockets,
  };
  const changes: LimitChanges = {};
  for (const name of LIMIT_NAMES) {
    const text = given[name];
    if (text !== undefined) changes[name] = limitOf(name, text);
  }
  const images = options.images === undefined ? undefined : imagesLimit(username, options.images);
  const { ADMIN_USERNAME } = readEnvironment(process.env);
  const { user, limits, changed, imagesMb } = await onDatabase(options, async (db) => {
    // First, since it is refused for the administrator.
    if (images !== undefined) await limitImages(db, username, images, ADMIN_USERNAME);
    const made = await changeLimits(db, username, changes);
    return { ...made, imagesMb: images === undefined ? made.user.registryLimitMb : images };
  });
  print(options, { id: user.id, username, limits, registry_limit_mb: imagesMb, changed }, () => {
    const unlimited = username === ADMIN_USERNAME ? 'no limit' : 'default';
    const rows = [
      ...LIMIT_NAMES.map((name) => [name.replaceAll('_', ' '), String(limits[name] ?? 'default')]),
      ['images', imagesMb === null ? unlimited : `${imagesMb} MiB`],
    ];
    return tableLines(['LIMIT', 'VALUE'], rows).join('\n');
  });
}

/** Reads a number, or `default`: null. Throws CliError. */
function limitOf(name: UserLimit, text: string): number | null {
  if (text === 'default') return null;
  const { most } = USER_LIMITS[name];
  if (/^[0-9]{1,9}$/.test(text) && Number(text) <= most) return Number(text);
  throw new CliError(
    `${limitOption(name)} is ${JSON.stringify(text)}: give 0 to ${most}, or "default" for what all may have.`,
  );
}
