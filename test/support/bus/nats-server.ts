/** A real nats-server (Debian's) with JetStream, as a child process that can be killed and started again. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { connect as connectSocket } from 'node:net';
import { join } from 'node:path';
import { guard } from '../guard.ts';
import { standsStill } from '../process-state.ts';
import { findProgram, skipWithout } from '../require.ts';
import { type Cleanup, freePort, tempDir } from '../temp.ts';
import { until } from '../until.ts';

/** What buses of tests seal by, where no process has a JWT_SECRET of its own. */
export const BUS_SECRET = 'what buses of tests seal by: 32 bytes and more';

/** For the `skip` option of tests that need a server. */
export const skipWithoutNats = (): string | false => skipWithout('nats-server');

export interface NatsServerOptions {
  /** Lines added to its configuration. */
  readonly configuration?: string;
  /** Where its store is; default a temporary folder of its own. */
  readonly store?: string;
  /** Without JetStream. */
  readonly jetStream?: false;
  /** Do not start it yet. */
  readonly stopped?: boolean;
  /** Address it listens on. Default 127.0.0.1. */
  readonly host?: string;
}

/** A server on one port, whether it runs or not. */
export interface TestNats {
  readonly port: number;
  /** `<host>:<port>` */
  readonly server: string;
  /** `nats://<host>:<port>` */
  readonly url: string;
  readonly pid: number | undefined;
  /** What it has written so far. */
  readonly log: string;
  /** Starts it on the same port and store; resolves once JetStream answers. */
  start(): Promise<void>;
  /** SIGKILL; resolves once it is gone. */
  kill(): Promise<void>;
  /** SIGSTOP; resolves once all of its threads stand still. */
  freeze(): Promise<void>;
  /** SIGCONT. */
  thaw(): void;
  /** Removes the store; only while it does not run. */
  empty(): Promise<void>;
}

/** Starts a server, ended with `t`. Throws with its log when it does not come up. */
export async function startNats(t: Cleanup, options: NatsServerOptions = {}): Promise<TestNats> {
  const folder = await tempDir(t);
  const store = options.store ?? join(folder, 'store');
  const port = await freePort();
  const host = options.host ?? '127.0.0.1';
  const file = join(folder, 'nats.conf');
  const jetStream =
    options.jetStream === false ? '' : `jetstream { store_dir: ${JSON.stringify(store)}, max_file_store: 8GB }`;
  await writeFile(file, [`host: ${host}`, `port: ${port}`, jetStream, options.configuration ?? '', ''].join('\n'));
  let child: ChildProcess | undefined;
  let log = '';

  const kill = async () => {
    const running = child;
    child = undefined;
    if (running === undefined || running.exitCode !== null || running.signalCode !== null) return;
    running.kill('SIGKILL');
    await once(running, 'exit');
  };
  const start = async () => {
    const started = spawn(findProgram('nats-server') ?? 'nats-server', ['-c', file], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child = started;
    // It goes with this process, however that ends.
    started.once('exit', guard(['kill -KILL "$1" 2>/dev/null', 'rm -rf "$2"'], String(started.pid), folder));
    for (const output of [started.stdout, started.stderr]) output.on('data', (chunk: Buffer) => (log += chunk));
    const serves = () => {
      if (started.exitCode !== null) throw new Error(`nats-server ended before it served:\n${log}`);
      return greets(host, port);
    };
    await until(serves, { what: 'nats-server serves', everyMs: 20 });
  };
  t.after(kill);
  if (options.stopped !== true) await start();
  return {
    port,
    server: `${host}:${port}`,
    url: `nats://${host}:${port}`,
    get pid() {
      return child?.pid;
    },
    get log() {
      return log;
    },
    start,
    kill,
    freeze: async () => {
      child?.kill('SIGSTOP');
      await until(() => standsStill(child?.pid));
    },
    thaw: () => {
      child?.kill('SIGCONT');
    },
    empty: () => rm(store, { recursive: true, force: true }),
  };
}

/** Whether a server says INFO on the port: it does once JetStream has recovered its store. */
function greets(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectSocket(port, host);
    const end = (greeted: boolean) => {
      socket.destroy();
      resolve(greeted);
    };
    socket.once('data', (data) => end(data.toString('latin1').startsWith('INFO')));
    socket.once('error', () => end(false));
    socket.once('close', () => end(false));
  });
}
