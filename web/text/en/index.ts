/** English. */
import { ACCOUNTS, ACTIVITY, HOSTNAMES, KEYS, TOKENS } from './access.ts';
import { CACHE } from './cache.ts';
import { COMMON } from './common.ts';
import { CONTAINER, LOG, TERMINAL } from './container.ts';
import { CONTAINERS } from './containers.ts';
import { CREATE } from './create.ts';
import { DELIVERY, DESKTOP, MAIL, WEBHOOKS } from './delivery.ts';
import { DEVICE } from './device.ts';
import { EGRESS_TEXT } from './egress.ts';
import { ENTER } from './enter.ts';
import { LOGIN } from './login.ts';
import { PALETTE } from './palette.ts';
import { HEALTH, MACHINE, NETWORK, SSH, STORAGE, WORKLOAD } from './parts.ts';
import { PASSWORD } from './password.ts';
import { ALL_CONTAINERS, AUDIT, MACHINES, MAP, PLATFORM, ROUTES_TEXT, TABLE, USERS } from './platform.ts';
import { REVISIONS } from './revisions.ts';
import { SETTINGS_TEXT } from './settings.ts';

export const EN = {
  ...COMMON,
  login: LOGIN,
  palette: PALETTE,
  table: TABLE,
  platform: PLATFORM,
  allContainers: ALL_CONTAINERS,
  users: USERS,
  machines: MACHINES,
  audit: AUDIT,
  routes: ROUTES_TEXT,
  map: MAP,
  containers: CONTAINERS,
  container: CONTAINER,
  create: CREATE,
  terminal: TERMINAL,
  log: LOG,
  network: NETWORK,
  storage: STORAGE,
  workload: WORKLOAD,
  health: HEALTH,
  machine: MACHINE,
  ssh: SSH,
  cache: CACHE,
  hostnames: HOSTNAMES,
  activity: ACTIVITY,
  delivery: DELIVERY,
  webhooks: WEBHOOKS,
  mail: MAIL,
  desktop: DESKTOP,
  keys: KEYS,
  tokens: TOKENS,
  accounts: ACCOUNTS,
  revisions: REVISIONS,
  settings: SETTINGS_TEXT,
  device: DEVICE,
  egress: EGRESS_TEXT,
  enter: ENTER,
  password: PASSWORD,
} as const;
