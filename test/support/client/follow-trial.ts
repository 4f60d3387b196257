/** Do the commands that follow go on after a cut of the network and an end of the platform? A trial in a short and a long form. */
import { join } from 'node:path';
import { z } from 'zod';
import { startBox } from '../clients/container.ts';
import { deleteAll, logIn, type RunningPlatform, request, startPlatform } from '../cluster/platform.ts';
import { type Cleanup, tempDir, tidily } from '../temp.ts';
import { until } from '../until.ts';
import { type Followers, faultsIn, startFollowers } from './followers.ts';
import { line } from './line.ts';

/** What happens to the commands: the network is cut; the platform is stopped, or killed, and starts again. */
type FollowEvent = 'cut' | 'stop' | 'kill';

interface FollowTrialOptions {
  readonly events: readonly FollowEvent[];
  /** The platform's environment. */
  readonly env: Record<string, string>;
  /** Cuts the way to a port of this machine. Resolves when it is whole again. Default: connections break, and new ones, until a notification was made. */
  readonly cut?: (port: number) => Promise<void>;
  /** Whether a shell outlives the platform: the image has perl. */
  readonly keepsShell: boolean;
}

/** What a person saw. Without `faults` nothing was missing and nothing came twice. */
interface FollowReport {
  readonly logged: number;
  readonly told: number;
  readonly drawn: number;
  readonly faults: readonly string[];
}

/** Runs `troupe logs -f`, `shell` and `notifications -f` through `events`, one after the other. */
export function followTrial(options: FollowTrialOptions): Promise<FollowReport> {
  return tidily((t) => throughEvents(t, options));
}

async function throughEvents(t: Cleanup, options: FollowTrialOptions): Promise<FollowReport> {
  const data = await tempDir(t);
  const start = () => startPlatform({ data, env: options.env });
  let platform: RunningPlatform = await start();
  t.after(async () => void (await platform.stop()));
  const { urls, admin } = platform.ready;
  const token = await logIn(urls.auth, admin.username, admin.password ?? '');
  t.after(() => deleteAll(platform.ready.urls.compute, token));
  const box = await startBox(urls.compute, token, data);
  const gatewayPort = () => Number(new URL(platform.ready.urls.https).port);
  const wire = await line(t, gatewayPort());
  const env = {
    XDG_CONFIG_HOME: join(data, 'config'),
    TROUPE_URL: `https://${new URL(urls.https).hostname}:${wire.port}`,
    TROUPE_TOKEN: token,
    TROUPE_CA: join(data, 'ca.pem'),
  };
  const followers = await startFollowers(t, box, { folder: data, env });
  const ids = () => notificationIds(platform.ready.urls.notify, token);
  const [begin = 0] = (await ids()).slice(-1);
  const faults: string[] = [];
  let drawn = 0;
  for (const event of options.events) {
    const isShellLost = event !== 'cut' && !options.keepsShell;
    if (event === 'cut' && options.cut !== undefined) {
      await Promise.all([options.cut(wire.port), makeNotification(platform, token)]);
    } else if (event === 'cut') {
      wire.cut();
      await makeNotification(platform, token);
      wire.mend(gatewayPort());
    } else {
      await (event === 'stop' ? platform.stop() : platform.kill());
      platform = await start();
      const back = isShellLost ? followers.countAgain() : undefined;
      wire.mend(gatewayPort());
      await makeNotification(platform, token);
      await back;
    }
    await followers.goOn();
    drawn = followers.shown().length;
    faults.push(...faultsAtTerminal(followers).map((fault) => `terminal after ${event}: ${fault}`));
  }
  const expected = (await ids()).filter((id) => id > begin);
  const told = () => followers.told().filter((id) => id > begin);
  await until(() => told().length >= expected.length, { what: 'all notifications are told' });
  if (told().join() !== expected.join()) faults.push(`told ${told()} instead of ${expected}`);
  faults.push(...faultsIn(followers.logged()).map((fault) => `log: ${fault}`));
  return { logged: followers.logged().length, told: told().length, drawn, faults };
}

/** A drawing has each line once, and begins no later than the one before ended. */
function faultsAtTerminal(followers: Followers): string[] {
  const drawings = followers.shown().filter((numbers) => numbers.length > 0);
  return drawings.flatMap((numbers, at) => {
    const last = drawings[at - 1]?.at(-1);
    const [first = 0] = numbers;
    const gap = last !== undefined && first > last + 1 ? [`begins at ${first}, after ${last}`] : [];
    return [...gap, ...faultsIn(numbers)];
  });
}

/** Makes and deletes a container, without a way through the network that is cut. */
async function makeNotification({ ready }: RunningPlatform, token: string): Promise<void> {
  const before = await notificationIds(ready.urls.notify, token);
  const body = {
    name: `told-${before.length}`,
    ssh_key_ids: await keyIds(ready.urls.compute, token),
    instance_type: 'mini',
  };
  const created = await request('POST', `${ready.urls.compute}/compute/containers`, { token, body });
  const url = `${ready.urls.compute}/compute/containers/${z.string().parse(created.json.id)}`;
  const isTold = async () => (await notificationIds(ready.urls.notify, token)).length > before.length;
  await until(isTold, { what: 'there is a notification', timeoutMs: 60_000 });
  await request('DELETE', url, { token });
  await until(async () => (await request('GET', url, { token })).status === 404, {
    what: 'it is gone',
    timeoutMs: 60_000,
  });
}

async function keyIds(computeUrl: string, token: string): Promise<number[]> {
  const { json } = await request('GET', `${computeUrl}/compute/ssh-keys`, { token });
  const keys = z.array(z.object({ id: z.number() })).parse(json.ssh_keys);
  return keys.map(({ id }) => id);
}

/** Ids of all notifications, the oldest first. */
async function notificationIds(notifyUrl: string, token: string): Promise<number[]> {
  const { json } = await request('GET', `${notifyUrl}/api/notifications?limit=100`, { token });
  return z
    .array(z.object({ id: z.number() }))
    .parse(json.list)
    .map(({ id }) => id)
    .toReversed();
}
