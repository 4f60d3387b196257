/** Gateways as processes of their own (`troupe gateway`) on one database, behind one port of the world, with a real authority. */
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { setSetting } from '../../../storage/settings.ts';
import { firstLine, spawnTroupe } from '../cluster/platform.ts';
import { testDatabase } from '../database/database.ts';
import { addContainer } from '../gateway/containers.ts';
import { type Cleanup, tempDir } from '../temp.ts';
import { until } from '../until.ts';
import { openBalancer } from './balancer.ts';
import { openCaFront } from './faulty-authority.ts';
import { CONTAINER, mapHostname } from './mapped-hosts.ts';
import { type PebbleOptions, startPebble } from './pebble.ts';

const readySchema = z.object({
  ready: z.literal(true),
  ports: z.object({ http: z.number(), https: z.number(), ssh: z.number() }),
});

export interface GatewayProcess {
  readonly pid: number;
  readonly https: number;
  /** What it shows on `/metrics`. */
  metrics(): Promise<string>;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** SIGTERM; its exit code. */
  stop(): Promise<number | null>;
}

export type GatewayProcesses = Awaited<ReturnType<typeof openGatewayProcesses>>;

/** Machines of tests are slow and busy. */
const PATIENT_MS = 300_000;

/** Lays it out, without a gateway yet. Needs pebble and a Docker Engine. */
export async function openGatewayProcesses(t: Cleanup, options: Partial<PebbleOptions> = {}) {
  const database = await testDatabase();
  t.after(() => database.close());
  const { db } = database;
  const roles = await database.serviceRoles();
  await setSetting(db, 'installation', 'abcdefghijkl');
  await addContainer(db, CONTAINER);
  const balancer = await openBalancer(t);
  const pebble = await startPebble(t, { tlsPort: balancer.port, ...options });
  const front = await openCaFront(t, pebble);
  const folder = await tempDir(t);
  const caFile = join(folder, 'ca.pem');
  await writeFile(caFile, front.ca);
  const running: GatewayProcess[] = [];
  let count = 0;
  return {
    db,
    pebble,
    front,
    /** Port 443, where the authority validates too. */
    balancer,
    /** Those that run. */
    gateways: running,
    /** Starts one; it is behind the balancer when this resolves. */
    start: async (): Promise<GatewayProcess> => {
      const ports = ['http', 'https', 'ssh', 'net'].flatMap((name) => [`--${name}-port`, '0']);
      const own = ['--listen', '127.0.0.1', '--domain', 'cloud.test', '--data', join(folder, `gateway-${++count}`)];
      const child = spawnTroupe(['gateway', '--json', ...own, ...ports], {
        ...{ DATABASE_URL: roles.urlOf('gateway'), JWT_SECRET: 'a secret of the tests, 32 bytes or more' },
        ...{ ENCRYPTION_KEY: '33'.repeat(32), LOG_LEVEL: 'warn', DNS_RESOLVERS: pebble.dns },
        ...{ ACME_DIRECTORY_URL: front.directoryUrl, ACME_CA_FILE: caFile, ACME_EMAIL: 'ops@example.com' },
      });
      let log = '';
      child.stderr.on('data', (chunk: Buffer) => (log = `${log}${chunk}`.slice(-20_000)));
      const ended = once(child, 'close').then(([code]) => (typeof code === 'number' ? code : null));
      const end = (signal: 'SIGKILL' | 'SIGTERM') => {
        const index = running.indexOf(gateway);
        if (index >= 0) running.splice(index, 1);
        balancer.targets = running.map(({ https }) => https);
        child.kill(signal);
        return ended;
      };
      t.after(async () => {
        child.kill('SIGKILL');
        await ended;
      });
      const first = await firstLine(child);
      if (first === undefined) throw new Error(`the gateway ended before it served:\n${log}`);
      const { http, https } = readySchema.parse(JSON.parse(first)).ports;
      const gateway: GatewayProcess = {
        ...{ pid: child.pid ?? 0, https },
        metrics: async () => (await fetch(`http://127.0.0.1:${http}/metrics`)).text(),
        kill: async () => void (await end('SIGKILL')),
        stop: () => end('SIGTERM'),
      };
      running.push(gateway);
      balancer.targets = running.map((one) => one.https);
      return gateway;
    },
    /** Maps a hostname, verified at once. */
    map: (hostname: string) => mapHostname(db, hostname),
    /** Waits for the certificates of hostnames. */
    issued: async (...hostnames: readonly string[]) => {
      const schema = z.object({ hostname: z.string() });
      const missing = async () => {
        const rows = await db.many(
          schema,
          'select hostname from certificates where hostname = any($1) and chain is not null',
          [hostnames],
        );
        return rows.length < hostnames.length;
      };
      await until(async () => !(await missing()), {
        ...{ timeoutMs: PATIENT_MS, everyMs: 50, what: `certificates for ${hostnames.length} hostnames` },
      });
    },
  };
}
