/**
 * A new version comes to a whole platform: every process is told to end and started again, one after the other or one machine's after the
 * other's, while people use all of it.
 */

import { z } from 'zod';
import { NOTIFICATIONS_STREAM, notificationEvent } from '../../../../proto/notify/notification.ts';
import { natsBus } from '../../../../transports/bus/nats.ts';
import { BUS_SECRET } from '../../bus/nats-server.ts';
import { silentLog } from '../../log.ts';
import { pause } from '../../pause.ts';
import type { Cleanup } from '../../temp.ts';
import { until } from '../../until.ts';
import type { ServiceProcess } from '../services.ts';
import { CATEGORY, Lines, Notifications, Statuses } from './followers.ts';
import { startWhole, type WholePlatform } from './platform.ts';
import { Requests } from './requests.ts';
import { openTerminals } from './terminals.ts';

export interface RollingOptions {
  /** Processes of each service. */
  readonly each: number;
  /** Which of them are restarted, of each service: the first so many. */
  readonly restarted: number;
  /** The first of each service at the same time, as if they were on one machine, then the second of each. Default: one at a time. */
  readonly isByMachine?: boolean;
  readonly people: number;
  /** Default 1. */
  readonly rounds?: number;
  readonly onRestart?: (what: string) => void;
}

export interface RollingReport {
  /** Whatever a client saw that it should not have seen, whatever did not come in time, processes that did not end well. */
  readonly problems: readonly string[];
  readonly requests: Requests;
  readonly restarts: number;
  readonly notifications: number;
  readonly lines: number;
  /** Statuses of a container that was stopped and started all the time, seen by a socket. */
  readonly statuses: number;
  /** Numbers that shells with a session id printed and their clients saw, and how often those came back. */
  readonly terminals: { readonly numbers: number; readonly returns: number };
  /** How sockets ended, by kind. */
  readonly ends: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** The newest part of each process's log. */
  readonly logs: readonly string[];
}

const PUBLISH_EVERY_MS = 150;
const statusSchema = z.object({ status: z.string() });

/** Runs it; the platform ends with `t`. */
export async function runRolling(t: Cleanup, options: RollingOptions): Promise<RollingReport> {
  const platform = await startWhole(t, options);
  const { ground, processes, people, front } = platform;
  const [first] = people;
  const [steady, changing] = platform.boxes;
  if (first === undefined) throw new TypeError('a rolling restart needs people');
  const problems: string[] = [];
  const connect = platform.connect;
  const inboxes = people.map(({ token }) => new Notifications(connect, token).start());
  const statuses = new Statuses(connect, first.token).start();
  const lines = new Lines(connect, `/compute/containers/${steady.id}/logs?token=${first.token}`).start();
  const clients = { notifications: inboxes, statuses: [statuses], log: [lines] };
  ground.after(async () => {
    for (const client of Object.values(clients).flat()) await client.stop();
  });
  await print(platform, steady.id, first.token);
  await until(() => lines.last > 0, { what: 'the log is followed', timeoutMs: 60_000 });
  const terminals = await openTerminals(platform, steady.id, first.token);
  const publisher = publishTo(platform);
  const requests = new Requests(front, people);
  ground.after(() => requests.stop());
  const changes = changeAlways(platform, changing.id, first.token, statuses);

  let restarts = 0;
  // What begins takes processors, which on a machine that is busy already are those who are served: one after the other.
  let beginning: Promise<unknown> = Promise.resolve();
  const restart = async (process: ServiceProcess) => {
    const { name } = process;
    const [before, known, began] = [requests.count, requests.failures.length, performance.now()];
    const code = await process.stop();
    if (code !== 0) problems.push(`a process of ${name} ended with ${code}:\n${process.log.slice(-2000)}`);
    const ended = performance.now();
    beginning = beginning.then(() => process.start());
    await beginning;
    await ground.settled();
    restarts += 1;
    const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
    options.onRestart?.(
      `${name} ${process.port}: ended within ${seconds(ended - began)}, back after ${seconds(performance.now() - ended)}; ` +
        `${requests.count - before} requests answered, ${requests.failures.length} failed${requests.failures.length === known ? '' : ` (${requests.failures.at(-1)})`}`,
    );
  };
  const names = [...new Set(processes.map((one) => one.name))];
  const machines = Array.from({ length: options.restarted }, (_, n) =>
    names.flatMap((name) => processes.filter((one) => one.name === name)[n] ?? []),
  );
  for (let round = 0; round < (options.rounds ?? 1); round++)
    for (const machine of machines) {
      if (options.isByMachine) await Promise.all(machine.map(restart));
      else for (const process of machine) await restart(process);
    }
  const changed = await changes.stop();
  problems.push(...changed.problems);
  await requests.stop();
  problems.push(...requests.failures);
  problems.push(...(await terminals.check()));
  await terminals.stop();
  const published = await publisher.stop();
  const lineNow = lines.last;
  try {
    await until(() => inboxes.every(({ titles }, n) => titles.length >= (published[n] ?? 0)), {
      what: 'all notifications have come',
      timeoutMs: 60_000,
    });
    await until(() => lines.last > lineNow, { what: 'the log goes on', timeoutMs: 60_000 });
  } catch (error) {
    problems.push(error instanceof Error ? error.message : 'failed');
  }
  for (const [n, { titles }] of inboxes.entries()) {
    const wanted = Array.from({ length: published[n] ?? 0 }, (_, k) => `n${k}`);
    const missing = wanted.filter((title) => !titles.includes(title));
    if (missing.length > 0) problems.push(`user ${n} was never told of ${missing.slice(0, 10).join(', ')}`);
    if (titles.length > wanted.length) problems.push(`user ${n} was told ${titles.length} times of ${wanted.length}`);
  }
  const ends: Record<string, Record<string, number>> = {};
  for (const [kind, some] of Object.entries(clients)) {
    const counts: Record<string, number> = {};
    for (const client of some) {
      await client.stop();
      problems.push(...client.problems.map((problem) => `${kind}: ${problem}`));
      for (const [how, times] of client.ends) counts[how] = (counts[how] ?? 0) + times;
    }
    ends[kind] = counts;
  }
  return {
    ...{ problems, requests, restarts, ends, lines: lines.last, statuses: changed.seen },
    terminals: { numbers: terminals.numbers, returns: terminals.returns },
    notifications: published.reduce((sum, n) => sum + n, 0),
    logs: processes.map(({ name, port, log }) => `--- ${name} ${port}\n${log.slice(-4000)}`),
  };
}

/** Lets a container print numbered lines for ever, whoever is connected to it. */
async function print({ connect }: WholePlatform, containerId: string, token: string): Promise<void> {
  const shell = await connect(`/compute/containers/${containerId}/terminal?token=${token}`);
  const loop = 'i=0; while :; do i=$((i+1)); echo "line $i" > /proc/1/fd/1; usleep 50000; done';
  shell.send(Buffer.from(`setsid sh -c '${loop}' > /dev/null 2>&1 < /dev/null & echo beg""un\n`));
  let said = '';
  await shell.find((frame) => {
    if ('binary' in frame) said += Buffer.from(frame.binary).toString();
    return said.includes('begun');
  }, 60_000);
  await shell.close(1000);
}

/** Publishes to all people, one notification after the other. `stop` resolves with how many each was sent. */
function publishTo({ ground, people }: WholePlatform): { stop(): Promise<number[]> } {
  const bus = natsBus({
    secret: BUS_SECRET,
    ...{ address: { servers: [ground.nats.server] }, name: 'test', log: silentLog },
    deadLetters: { add: async () => {} },
  });
  const ending = new AbortController();
  const counts = people.map(() => 0);
  const lanes = people.map(async ({ id: userId }, n) => {
    await bus.ensureStream(NOTIFICATIONS_STREAM);
    while (!ending.signal.aborted) {
      const title = `n${counts[n]}`;
      const fields = { userId, title, message: 'm', link: '', category: CATEGORY, scope: '' };
      const { subject, data, msgId } = notificationEvent('test', Date.now(), fields);
      // As the relay of the outbox does: one that may have been taken is sent again under its own id.
      const send = () => bus.append(subject, data, { msgId }).catch(() => undefined);
      while ((await send()) === undefined) await pause(PUBLISH_EVERY_MS, 'retry');
      counts[n] = (counts[n] ?? 0) + 1;
      await pause(PUBLISH_EVERY_MS, 'pace', ending.signal);
    }
  });
  const stop = async () => {
    ending.abort();
    await Promise.all(lanes);
    await bus.close();
    return counts;
  };
  ground.after(async () => void (await stop()));
  return { stop };
}

/** Stops and starts a container all the time. Whatever it came to, the socket must say the same. */
function changeAlways(
  { ground, front }: WholePlatform,
  id: string,
  token: string,
  statuses: Statuses,
): { stop(): Promise<{ problems: string[]; seen: number }> } {
  const problems: string[] = [];
  let isOver = false;
  let seen = 0;
  const path = `/compute/containers/${id}`;
  const work = (async () => {
    try {
      while (!isOver) {
        for (const [verb, wanted] of [
          ['stop', 'stopped'],
          ['start', 'running'],
        ] as const) {
          const { status, json, resets } = await front.request('POST', `${path}/${verb}`, { token, timeoutMs: 60_000 });
          // One that was sent twice finds that the first has done it.
          if (status !== 200 && !(status === 409 && resets > 0))
            throw new Error(`${verb}: ${status} ${JSON.stringify(json)}`);
          await until(
            async () => {
              const { status, json } = await front.request('GET', path, { token, timeoutMs: 60_000 });
              if (status !== 200) throw new Error(`GET: ${status} ${JSON.stringify(json)}`);
              return statusSchema.parse(json).status === wanted;
            },
            { what: `the container is ${wanted}`, timeoutMs: 120_000, everyMs: 50 },
          );
          await until(() => statuses.of(id) === wanted, {
            what: `the socket is told that it is ${wanted} (it says ${statuses.of(id)})`,
            timeoutMs: 60_000,
          });
          seen += 1;
        }
      }
    } catch (error) {
      problems.push(`statuses: ${error instanceof Error ? error.message : 'failed'}`);
    }
  })();
  const stop = async () => {
    isOver = true;
    await work;
    return { problems, seen };
  };
  ground.after(async () => void (await stop()));
  return { stop };
}
