/** English. */
import { ACTIVITY, HOSTNAMES, KEYS, TOKENS } from './access.ts';
import { COMMON } from './common.ts';
import { CONTAINER, LOG, TERMINAL } from './container.ts';
import { CONTAINERS } from './containers.ts';
import { CREATE } from './create.ts';
import { DEVICE } from './device.ts';
import { LOGIN } from './login.ts';
import { PALETTE } from './palette.ts';
import { NETWORK, SSH, STORAGE } from './parts.ts';
import { SETTINGS_TEXT } from './settings.ts';

export const EN = {
  ...COMMON,
  login: LOGIN,
  containers: CONTAINERS,
  container: CONTAINER,
  create: CREATE,
  terminal: TERMINAL,
  log: LOG,
  network: NETWORK,
  storage: STORAGE,
  ssh: SSH,
  hostnames: HOSTNAMES,
  activity: ACTIVITY,
  keys: KEYS,
  tokens: TOKENS,
  settings: SETTINGS_TEXT,
  device: DEVICE,
  palette: PALETTE,
} as const;
