/** A real ACME authority (Debian's pebble, strict) with a DNS server that says 127.0.0.1 to everything, or one of the test's own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { Agent, get } from 'node:https';
import { join } from 'node:path';
import { issueCertificate, makeAuthority } from '../../../transports/gateway/tls/local-ca.ts';
import { guard } from '../guard.ts';
import { findProgram, skipWithout } from '../require.ts';
import { type Cleanup, freePort, tempDir } from '../temp.ts';
import { until } from '../until.ts';

/** For the `skip` option of tests that need it. */
export const skipWithoutPebble = (): string | false => skipWithout('pebble', 'pebble-challtestsrv');

export interface PebbleOptions {
  /** Port on which it validates TLS-ALPN-01. */
  readonly tlsPort: number;
  /** Of 100 good nonces, how many it refuses. Default 20. */
  readonly nonceReject?: number;
  /** It wants an external account binding. */
  readonly binding?: { readonly kid: string; readonly hmacKey: string };
  /** Most seconds that it takes before it looks at a challenge. Default 0. */
  readonly sleepSeconds?: number;
  /** `host:port` of the DNS server it asks. */
  readonly dns?: string;
}

export interface Pebble {
  readonly directoryUrl: string;
  /** The directory's own certificate authority, PEM, and as a file. */
  readonly ca: string;
  readonly caFile: string;
  /** `host:port` of the DNS server it asks. */
  readonly dns: string;
  /** The root of what it issues. */
  root(): Promise<string>;
  /** All it has written. */
  log(): string;
  /** Orders that were placed since it was started. */
  orders(): number;
  stop(): Promise<void>;
  /** Again, on the same port; it remembers nothing. */
  start(): Promise<void>;
  /** It stands still until the second is sent. */
  signal(name: 'SIGSTOP' | 'SIGCONT'): void;
}

/** Starts it, ended with `t`. */
export async function startPebble(t: Cleanup, options: PebbleOptions): Promise<Pebble> {
  const folder = await tempDir(t);
  const authority = await makeAuthority('Directory (test)', Date.now());
  const own = await issueCertificate(authority, ['localhost'], Date.now());
  const file = (name: string) => join(folder, name);
  const [port, management, dns, dnsManagement] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ];
  await writeFile(file('ca.pem'), authority.cert);
  await writeFile(file('cert.pem'), own.cert);
  await writeFile(file('key.pem'), own.key);
  const { binding } = options;
  await writeFile(
    file('pebble.json'),
    JSON.stringify({
      pebble: {
        listenAddress: `127.0.0.1:${port}`,
        managementListenAddress: `127.0.0.1:${management}`,
        certificate: file('cert.pem'),
        privateKey: file('key.pem'),
        httpPort: 1,
        tlsPort: options.tlsPort,
        ocspResponderURL: '',
        externalAccountBindingRequired: binding !== undefined,
        ...(binding === undefined ? {} : { externalAccountMACKeys: { [binding.kid]: binding.hmacKey } }),
      },
    }),
  );
  const children = new Set<ChildProcess>();
  let log = '';
  const run = (name: string, args: string[], env: Record<string, string> = {}): ChildProcess => {
    const child = spawn(findProgram(name) ?? name, args, {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    children.add(child);
    const endGuard = guard(['kill -KILL "$1" 2>/dev/null'], String(child.pid));
    child.once('exit', () => {
      children.delete(child);
      endGuard();
    });
    for (const output of [child.stdout, child.stderr]) output?.on('data', (chunk: Buffer) => (log += chunk));
    return child;
  };
  const end = async (child: ChildProcess | undefined) => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  };
  t.after(async () => {
    await Promise.all([...children].map(end));
  });
  if (options.dns === undefined)
    run('pebble-challtestsrv', [
      ...['-dns01', `127.0.0.1:${dns}`, '-management', `127.0.0.1:${dnsManagement}`],
      ...['-http01', '', '-https01', '', '-tlsalpn01', '', '-defaultIPv4', '127.0.0.1', '-defaultIPv6', ''],
    ]);
  let pebble: ChildProcess | undefined;
  const page = (at: number, path: string) => fetchWith(authority.cert, `https://localhost:${at}${path}`);
  const start = async () => {
    const child = run(
      'pebble',
      ['-strict', '-config', file('pebble.json'), '-dnsserver', options.dns ?? `127.0.0.1:${dns}`],
      {
        ...(options.sleepSeconds === undefined
          ? { PEBBLE_VA_NOSLEEP: '1' }
          : { PEBBLE_VA_SLEEPTIME: String(options.sleepSeconds) }),
        PEBBLE_WFE_NONCEREJECT: String(options.nonceReject ?? 20),
        PEBBLE_AUTHZREUSE: '0',
      },
    );
    pebble = child;
    const serves = async () => {
      if (child.exitCode !== null) throw new Error(`pebble ended before it served:\n${log}`);
      return (await page(port, '/dir').catch(() => '')).includes('newOrder');
    };
    await until(serves, { what: 'pebble serves', everyMs: 20, timeoutMs: 60_000 });
  };
  await start();
  return {
    directoryUrl: `https://localhost:${port}/dir`,
    ca: authority.cert,
    caFile: file('ca.pem'),
    dns: options.dns ?? `127.0.0.1:${dns}`,
    root: () => page(management, '/roots/0'),
    log: () => log,
    orders: () => (log.match(/Added order "/g) ?? []).length,
    stop: () => end(pebble),
    start,
    signal: (name) => {
      pebble?.kill(name);
    },
  };
}

/** A page over HTTPS by an authority of one's own. */
function fetchWith(ca: string, url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const agent = new Agent({ ca });
    get(url, { agent, timeout: 2000 }, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk));
      response.on('end', () => {
        agent.destroy();
        resolve(text);
      });
    }).on('error', reject);
  });
}
