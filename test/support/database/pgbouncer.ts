/** A real PgBouncer (Debian package `pgbouncer`) in transaction mode. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { findProgram, skipWithout } from '../require.ts';
import { type Cleanup, tempDir } from '../temp.ts';
import { until } from '../until.ts';

/** For the `skip` option of tests that need one. */
export function skipWithoutPgBouncer(): string | false {
  return skipWithout('pgbouncer');
}

/** Where it listens, and the server behind it. */
export interface PgBouncerOptions {
  readonly host: string;
  readonly port: number;
  readonly server: { readonly host: string; readonly port: number; readonly user: string; readonly database: string };
  /** Most connections to the server. */
  readonly poolSize: number;
}

const NOBODY = 65_534;

/** Starts it; it ends with `t`. Rejects when it does not come up. */
export async function startPgBouncer(t: Cleanup, { host, port, server, poolSize }: PgBouncerOptions): Promise<void> {
  const folder = await tempDir(t);
  const file = join(folder, 'pgbouncer.ini');
  await writeFile(
    file,
    `[databases]
${server.database} = host=${server.host} port=${server.port} user=${server.user}
[pgbouncer]
listen_addr = ${host}
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${poolSize}
max_client_conn = 2000
log_connections = 0
log_disconnections = 0
log_stats = 0
`,
  );
  await Promise.all([chmod(folder, 0o755), chmod(file, 0o644)]);
  // It does not run as root.
  const user = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  const child = spawn(findProgram('pgbouncer') ?? 'pgbouncer', [file], {
    ...user,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => {
    said = `${said}${chunk}`.slice(-10_000);
  });
  t.after(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'close');
  });
  await until(() => child.exitCode !== null || answers(host, port), { what: 'PgBouncer listens' });
  if (child.exitCode !== null) throw new Error(`PgBouncer ended:\n${said}`);
}

/** Whether somebody listens there. */
function answers(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, host, () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });
}
