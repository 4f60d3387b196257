/** Where the data of a platform is when --data does not say. */
import { homedir } from 'node:os';
import { join } from 'node:path';

/**
 * TROUPE_DATA, else /var/lib/troupe for root and the user's data folder for others (XDG base directory specification).
 */
export function defaultDataDir(env: Readonly<Record<string, string | undefined>>): string {
  if (env.TROUPE_DATA) return env.TROUPE_DATA;
  if (process.getuid?.() === 0) return '/var/lib/troupe';
  return join(env.XDG_DATA_HOME || join(homedir(), '.local', 'share'), 'troupe');
}
