/** The login at another registry: typed, or the one that `docker login` keeps on this machine. */
import { homedir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { jsonOf } from '../../../lib/input.ts';
import { ClientFailure } from '../failure.ts';
import type { Output } from '../output.ts';
import type { OwnMachine } from '../place.ts';
import { takeSecret } from '../prompt.ts';

/** Never kept, and sent to that registry alone, and to the login server that it names. */
export interface SourceLogin {
  readonly username: string;
  readonly password: string;
}

/** What Docker calls its Hub there. */
const HUB_KEYS = ['https://index.docker.io/v1/', 'index.docker.io', 'docker.io', 'registry-1.docker.io'];

const configSchema = z.object({
  auths: z.record(z.string(), z.object({ auth: z.string().optional() })).optional(),
});

/** The user that is named, and the password, which is typed or a line of standard input. Throws ClientFailure. */
export async function askedLogin(out: Output, username: string, host: string): Promise<SourceLogin> {
  if (username === '' || username.includes(':'))
    throw new ClientFailure('usage', 'A user name has no colon and is not empty: --username NAME.');
  const otherwise = 'The password is typed at a terminal, or piped in as a line of standard input.';
  const password = await takeSecret(out, `Password of ${username} at ${host}: `, otherwise);
  if (password === '') throw new ClientFailure('usage', 'The password is empty: type one, or pipe it in.');
  return { username, password };
}

/** What `docker login` kept for the registry; undefined without, and where Docker leaves it to another program. */
export function keptLogin(machine: Pick<OwnMachine, 'readText'>, host: string): SourceLogin | undefined {
  const file = join(process.env.DOCKER_CONFIG || join(homedir(), '.docker'), 'config.json');
  let text: string;
  try {
    text = machine.readText(file);
  } catch {
    // Most people have none.
    return undefined;
  }
  const { auths = {} } = configSchema.safeParse(jsonOf(text)).data ?? {};
  for (const key of host === 'docker.io' ? HUB_KEYS : [host, `https://${host}`, `https://${host}/`]) {
    const pair = Buffer.from(auths[key]?.auth ?? '', 'base64').toString('utf8');
    const colon = pair.indexOf(':');
    if (colon > 0 && colon < pair.length - 1)
      return { username: pair.slice(0, colon), password: pair.slice(colon + 1) };
  }
  return undefined;
}
