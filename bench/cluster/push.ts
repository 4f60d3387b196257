/** Notifications to sockets at several processes of `troupe notify`, joined by a real nats-server and PostgreSQL. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface, type Interface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { NOTIFICATIONS_STREAM, notificationEvent } from '../../proto/notify/notification.ts';
import { BUS_SECRET } from '../../test/support/bus/nats-server.ts';
import { layGround } from '../../test/support/cluster/services.ts';
import { silentLog } from '../../test/support/log.ts';
import type { Cleanup } from '../../test/support/temp.ts';
import { natsBus } from '../../transports/bus/nats.ts';
import { clients } from '../push/clients.ts';
import { addUsers, SECRET, socketPath, userIdOf } from '../push/whole.ts';
import { databaseSeconds, secondsOf } from './processor.ts';

export interface PushOptions {
  /** Numbers of processes. */
  readonly sizes: readonly number[];
  readonly sockets: number;
  /** Notifications of one round. */
  readonly notifications: number;
  readonly rounds: number;
  /** Where the test server of PostgreSQL is. */
  readonly socketDir: string;
}

/** What so many processes pushed; each list has an entry a round. */
export interface Pushed {
  readonly processes: number;
  /** Where the sockets of one user are: at one process, or at all in turn. */
  readonly isSpread: boolean;
  /** Messages a second, counted at the sockets. */
  readonly perSecond: readonly number[];
  /** Processor time of all processes of the service for a message, µs. */
  readonly serviceUs: readonly number[];
  /** The same of nats-server and PostgreSQL. */
  readonly besideUs: readonly number[];
}

/** Of one user; the service allows so many. */
export const SOCKETS_EACH = 5;
/** Notifications that the stream has not taken yet. */
const UNDERWAY = 1024;

const placesSchema = z.object({ ports: z.array(z.number()), sockets: z.number(), isSpread: z.boolean() });

/** The process of the clients. */
export async function pushClients(text: string): Promise<void> {
  const { ports, sockets, isSpread } = placesSchema.parse(JSON.parse(text));
  const portOf = (socket: number) => ports[(isSpread ? socket : Math.floor(socket / SOCKETS_EACH)) % ports.length] ?? 0;
  await clients(portOf, sockets, SOCKETS_EACH, { path: socketPath });
}

/** Pushes as fast as it goes, with so many processes one after the other. */
export async function measurePushed(t: Cleanup, options: PushOptions): Promise<Pushed[]> {
  const { sizes, sockets, socketDir } = options;
  const users = sockets / SOCKETS_EACH;
  // No container is ever made: the image is only a name.
  const ground = await layGround(t, { JWT_SECRET: SECRET, LOG_LEVEL: 'error', DEFAULT_IMAGE: 'none' });
  await addUsers(ground.db, users);
  const bus = natsBus({
    secret: BUS_SECRET,
    ...{ address: { servers: [ground.nats.server] }, name: 'publisher', log: silentLog },
    deadLetters: { add: async () => {} },
  });
  ground.after(() => bus.close());
  await bus.ensureStream(NOTIFICATIONS_STREAM);
  const publish = async (count: number) => {
    let next = 0;
    const lane = async () => {
      while (next < count) {
        const { subject, data, msgId } = notificationEvent('bench', Date.now(), {
          // Of one user at a time far apart, as people are.
          ...{ userId: userIdOf((next++ * 7919) % users), title: 'Container started' },
          ...{ message: '"web" is running.', link: '/containers/abcdefghijk1', category: 'compute', scope: '' },
        });
        await bus.append(subject, data, { msgId });
      }
    };
    await Promise.all(Array.from({ length: UNDERWAY }, lane));
  };

  const running: { readonly port: number; readonly pid: number | undefined }[] = [];
  const results: Pushed[] = [];
  for (const processes of sizes) {
    while (running.length < processes) running.push(await ground.start('notify'));
    await ground.settled('notify');
    const pids = running.map(({ pid }) => pid);
    const ports = running.map(({ port }) => port);
    for (const isSpread of processes === 1 ? [false] : [false, true]) {
      const load = await connected({ ports, sockets, isSpread });
      const measured: Measured[] = [];
      try {
        const round = (count: number) =>
          oneRound({
            ...{ publish: () => publish(count), frames: count * SOCKETS_EACH, load },
            processor: () => ({
              service: secondsOf(pids),
              beside: secondsOf([ground.nats.pid]) + databaseSeconds(socketDir),
            }),
          });
        // The first lets the compiler settle.
        await round(Math.ceil(options.notifications / 2));
        for (let n = 0; n < options.rounds; n++) measured.push(await round(options.notifications));
      } finally {
        load.child.stdin?.end();
        if (load.child.exitCode === null) await once(load.child, 'exit');
      }
      results.push({
        ...{ processes, isSpread },
        perSecond: measured.map(({ perSecond }) => perSecond),
        serviceUs: measured.map(({ serviceUs }) => serviceUs),
        besideUs: measured.map(({ besideUs }) => besideUs),
      });
    }
  }
  return results;
}

interface Load {
  readonly child: ChildProcess;
  readonly lines: Interface;
}

interface Measured {
  readonly perSecond: number;
  readonly serviceUs: number;
  readonly besideUs: number;
}

interface Round {
  publish(): Promise<void>;
  /** How many the sockets get of it. */
  readonly frames: number;
  readonly load: Load;
  processor(): { readonly service: number; readonly beside: number };
}

async function connected(places: z.infer<typeof placesSchema>): Promise<Load> {
  const main = fileURLToPath(new URL('../cluster.js', import.meta.url));
  const args = ['--enable-source-maps', main, 'clients', JSON.stringify(places)];
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout });
  z.object({ connected: z.literal(places.sockets) }).parse(await answer({ child, lines }));
  return { child, lines };
}

/** From the first notification that is published to the last that is at a socket. */
async function oneRound({ publish, frames, load, processor }: Round): Promise<Measured> {
  const arrived = answer(load);
  load.child.stdin?.write(`expect ${frames}\n`);
  const before = processor();
  const began = performance.now();
  const [got] = await Promise.all([arrived, publish()]);
  const seconds = (performance.now() - began) / 1000;
  const after = processor();
  z.object({ got: z.literal(frames) }).parse(got);
  const us = (used: number) => (used * 1e6) / frames;
  return {
    perSecond: frames / seconds,
    serviceUs: us(after.service - before.service),
    besideUs: us(after.beside - before.beside),
  };
}

/** The next line of the clients; rejects when they end first. */
async function answer({ child, lines }: Load): Promise<unknown> {
  const over = new AbortController();
  try {
    const line = await Promise.race([
      once(lines, 'line', { signal: over.signal }),
      once(child, 'exit', { signal: over.signal }).then(() => {
        throw new Error('the clients have ended');
      }),
    ]);
    return JSON.parse(String(line[0]));
  } finally {
    over.abort();
  }
}
