/** Login by a code that a person approves in a browser (docs/reference/sessions.md), on platforms that have it. */
import { spawn } from 'node:child_process';
import { hostname } from 'node:os';
import { type CallReply, type TroupeClient, TroupeError } from '../../client/index.ts';
import { clean } from './clean.ts';
import { ClientFailure } from './failure.ts';
import type { Output } from './output.ts';
import type { Profile } from './place.ts';

const SLOWER_SECONDS = 5;
/** Characters of a machine's name that the platform takes. */
const MOST_OF_NAME = 64;

/** Resolves with the login once it is approved; undefined on a platform without it. Throws ClientFailure if refused. */
export async function approveDevice(
  client: TroupeClient,
  out: Output,
): Promise<Pick<Profile, 'token' | 'username' | 'userId'> | undefined> {
  const begun = await begin(client);
  if (begun === undefined) return undefined;
  const code = clean(begun.user_code);
  out.note(`Open ${pageOf(begun.verification_url)} in a browser, and approve the code  ${out.paint(code, 'bold')}`);
  out.note('Waiting until it is approved. `troupe login --password` asks for the password instead.');
  openBrowser(pageOf(begun.verification_url_complete));
  const deadline = Date.now() + begun.expires_in * 1000;
  let seconds = begun.interval;
  while (Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    const answer = await ask(client, begun.device_code);
    // A platform that restarts comes back; the code is kept.
    if (answer === undefined) continue;
    if (answer.status === 'approved') return { token: answer.token, username: answer.username, userId: answer.user_id };
    if (answer.status === 'refused') throw new ClientFailure('login', 'The login was refused in the browser.');
    if (answer.status === 'expired') break;
    seconds = 'interval' in answer ? answer.interval : seconds + SLOWER_SECONDS;
  }
  throw new ClientFailure('login', 'The code is too old, or was used up by wrong ones: try again.');
}

async function begin(client: TroupeClient): Promise<CallReply<'beginDevice'> | undefined> {
  const name =
    hostname()
      .replace(/[\p{Cc}\p{Cf}]/gu, '')
      .trim()
      .slice(0, MOST_OF_NAME) || 'a machine without a name';
  try {
    return await client.call('beginDevice', { body: { name } });
  } catch (error) {
    if (error instanceof TroupeError && [404, 405].includes(error.status)) return undefined;
    throw error;
  }
}

/** What is said about the code now; undefined when the platform does not answer, or has too much to do. */
async function ask(client: TroupeClient, device_code: string): Promise<CallReply<'deviceToken'> | undefined> {
  try {
    return await client.call('deviceToken', { body: { device_code } });
  } catch (error) {
    if (!(error instanceof TroupeError) || error.code === 'untrusted') throw error;
    if (error.status === 0 || error.status === 429 || error.status >= 500) return undefined;
    throw error;
  }
}

/** The address of a page. Anything else that a server may name is not handed to the programs of this machine. */
function pageOf(url: string): string {
  const page = URL.canParse(url) ? new URL(url) : undefined;
  if (page === undefined || !['https:', 'http:'].includes(page.protocol))
    throw new ClientFailure('failed', 'The platform names no page where the login could be approved.');
  return page.href;
}

/** Opens an address where there is a desktop; elsewhere nothing happens. */
export function openBrowser(url: string): boolean {
  const { DISPLAY, WAYLAND_DISPLAY } = process.env;
  const program = process.platform === 'darwin' ? 'open' : 'xdg-open';
  if (process.platform !== 'darwin' && !DISPLAY && !WAYLAND_DISPLAY) return false;
  const child = spawn(program, [url], { stdio: 'ignore', detached: true });
  // Without such a program the address is printed all the same.
  child.on('error', () => {});
  child.unref();
  return true;
}
