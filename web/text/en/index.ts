/** English. */
import { COMMON } from './common.ts';
import { CONTAINER, LOG, TERMINAL } from './container.ts';
import { CONTAINERS } from './containers.ts';
import { CREATE } from './create.ts';
import { LOGIN } from './login.ts';

export const EN = {
  ...COMMON,
  login: LOGIN,
  containers: CONTAINERS,
  container: CONTAINER,
  create: CREATE,
  terminal: TERMINAL,
  log: LOG,
} as const;
