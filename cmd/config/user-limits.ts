/** What the environment says of how much each user may have. */
import { z } from 'zod';
import { USER_LIMITS, type UserLimit, type UserLimits } from '../../proto/user-limits.ts';

const limit = (name: UserLimit) => {
  const { usual, most } = USER_LIMITS[name];
  const expected = `must be 0 to ${most}`;
  return z
    .string()
    .regex(/^[0-9]{1,4}$/, expected)
    .transform(Number)
    .pipe(z.number().max(most, expected))
    .prefault(String(usual));
};

/** The variables. */
export const USER_LIMIT_VARIABLES = {
  CONTAINERS_PER_USER: limit('containers'),
  SSH_KEYS_PER_USER: limit('ssh_keys'),
  TERMINALS_PER_USER: limit('terminals'),
  COMMANDS_PER_USER: limit('commands'),
  LOG_SOCKETS_PER_USER: limit('log_sockets'),
  UPDATE_SOCKETS_PER_USER: limit('update_sockets'),
  NOTIFICATION_SOCKETS_PER_USER: limit('notification_sockets'),
};

/** What users may have for whom the operator set nothing. */
export function userLimitsOf(environment: Readonly<Record<keyof typeof USER_LIMIT_VARIABLES, number>>): UserLimits {
  return {
    containers: environment.CONTAINERS_PER_USER,
    ssh_keys: environment.SSH_KEYS_PER_USER,
    terminals: environment.TERMINALS_PER_USER,
    commands: environment.COMMANDS_PER_USER,
    log_sockets: environment.LOG_SOCKETS_PER_USER,
    update_sockets: environment.UPDATE_SOCKETS_PER_USER,
    notification_sockets: environment.NOTIFICATION_SOCKETS_PER_USER,
  };
}
