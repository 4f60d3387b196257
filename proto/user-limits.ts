/** How many things of a kind one user may have: for all as the operator sets it, and for single users. */
import { z } from 'zod';

/** `usual`: for all, unless the operator says otherwise. `most`: what the operator may say. */
export const USER_LIMITS = {
  containers: { usual: 3, most: 1000 },
  ssh_keys: { usual: 10, most: 100 },
  /** Sockets that are open, of each kind in each process of the compute service. */
  terminals: { usual: 20, most: 1000 },
  commands: { usual: 20, most: 1000 },
  log_sockets: { usual: 50, most: 1000 },
  /** In all processes. */
  update_sockets: { usual: 20, most: 1000 },
  notification_sockets: { usual: 5, most: 100 },
} as const;

/** The name of one. */
export type UserLimit = keyof typeof USER_LIMITS;

/** How many of each. */
export type UserLimits = Readonly<Record<UserLimit, number>>;

const ofEach = <T>(make: (limit: { readonly usual: number; readonly most: number }) => T): Record<UserLimit, T> => ({
  containers: make(USER_LIMITS.containers),
  ssh_keys: make(USER_LIMITS.ssh_keys),
  terminals: make(USER_LIMITS.terminals),
  commands: make(USER_LIMITS.commands),
  log_sockets: make(USER_LIMITS.log_sockets),
  update_sockets: make(USER_LIMITS.update_sockets),
  notification_sockets: make(USER_LIMITS.notification_sockets),
});

/** What each user may have where the operator says nothing. */
export const DEFAULT_USER_LIMITS: UserLimits = ofEach(({ usual }) => usual);

/** What one user may have: null as all. */
export const ownLimitsSchema = z.object(ofEach(() => z.int().nullable()));

/** A change of what one user may have. What it does not name stays. */
export const limitChangesSchema = z.strictObject(ofEach(({ most }) => z.int().min(0).max(most).nullable().optional()));
export type LimitChanges = z.output<typeof limitChangesSchema>;

export const limitNameSchema = z.enum([
  'containers',
  'ssh_keys',
  'terminals',
  'commands',
  'log_sockets',
  'update_sockets',
  'notification_sockets',
]);
export const LIMIT_NAMES: readonly UserLimit[] = limitNameSchema.options;

/** The option of `troupe users limits` that sets it. */
export function limitOption(limit: UserLimit): string {
  return `--${limit.replaceAll('_', '-')}`;
}

/** The operator's command that changes a limit of a user. */
export function limitsCommand(username: string, limit: UserLimit): string {
  return `troupe users limits ${username} ${limitOption(limit)} N`;
}
