/** Login by a code that a person approves in a browser (RFC 8628), on platforms that have it. */
import { spawn } from 'node:child_process';
import { type TroupeClient, TroupeError } from '../../client/index.ts';
import { ClientFailure } from './failure.ts';
import type { Output } from './output.ts';
import type { Profile } from './profiles.ts';

const SLOWER_SECONDS = 5;

/** Resolves with the login once it is approved; undefined on a platform without it. Throws ClientFailure if refused. */
export async function approveDevice(
  client: TroupeClient,
  out: Output,
  name: string,
): Promise<Pick<Profile, 'token' | 'username' | 'userId'> | undefined> {
  let begun: Record<string, unknown>;
  try {
    begun = record((await client.request('POST', '/api/device', { name })).body);
  } catch (error) {
    if (error instanceof TroupeError && [404, 405].includes(error.status)) return undefined;
    throw error;
  }
  const { device_code, user_code, verification_url } = begun;
  if (typeof device_code !== 'string' || typeof verification_url !== 'string') return undefined;
  out.note(`Open ${verification_url} in a browser, and approve the code  ${out.paint(String(user_code), 'bold')}`);
  openBrowser(`${verification_url}?code=${encodeURIComponent(String(user_code))}`);
  const deadline = Date.now() + numberOf(begun.expires_in, 600) * 1000;
  let seconds = numberOf(begun.interval, 2);
  while (Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    const answer = await poll(client, device_code);
    if (typeof answer.token === 'string') return loginOf(answer, answer.token);
    const state = answer.code ?? answer.status ?? answer.error;
    if (state === 'slow_down') seconds += SLOWER_SECONDS;
    else if (state === 'refused' || state === 'expired') break;
  }
  throw new ClientFailure('login', 'The login was not approved.');
}

/** What is said about the code now: also the refusals of this endpoint are answers. */
async function poll(client: TroupeClient, device_code: string): Promise<Record<string, unknown>> {
  try {
    return record((await client.request('POST', '/api/device/token', { device_code })).body);
  } catch (error) {
    if (!(error instanceof TroupeError)) throw error;
    if (error.status === 429) return { code: 'slow_down' };
    // A platform that restarts comes back; the code is kept.
    if (error.status === 0 || error.status >= 500) return { code: 'pending' };
    if (['pending', 'authorization_pending'].includes(error.code)) return { code: 'pending' };
    throw error;
  }
}

function loginOf(answer: Record<string, unknown>, token: string): Pick<Profile, 'token' | 'username' | 'userId'> {
  const { username, user_id } = answer;
  return {
    token,
    username: typeof username === 'string' ? username : undefined,
    userId: typeof user_id === 'string' ? user_id : undefined,
  };
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

function record(text: string): Record<string, unknown> {
  const value: unknown = JSON.parse(text);
  return typeof value === 'object' && value !== null ? { ...value } : {};
}

function numberOf(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise;
}
