/** Slow clients (slowhttptest: heads, bodies, readers) beside ordinary ones: what the others wait, and what the gateway holds. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Cleanup } from '../temp.ts';
import { until } from '../until.ts';
import { gatewayProcess } from './gateway-process.ts';
import { probe, type Waits } from './probes.ts';
import { httpOrigin } from './proxy.ts';

/** H: a head that never ends. B: a body that drips. X: a reader that hardly reads. */
export type SlowKind = 'H' | 'B' | 'X';

export interface SlowReport {
  readonly kind: SlowKind;
  readonly before: Waits;
  readonly during: Waits;
  /** Most connections that slow clients had open at once. */
  readonly slow: number;
  readonly memoryMb: { readonly before: number; readonly most: number };
}

const LARGE = Buffer.alloc(2 * 1024 * 1024, 'x');

/** Runs `connections` slow clients for `seconds`, and measures ordinary clients before and meanwhile. */
export async function slowClients(
  t: Cleanup,
  kind: SlowKind,
  { connections, seconds, beforeSeconds }: { connections: number; seconds: number; beforeSeconds: number },
): Promise<SlowReport> {
  const origin = await httpOrigin(t, (_incoming, response) => response.end('probed'));
  const slowOrigin = await httpOrigin(t, (incoming, response) => {
    incoming.resume();
    if (kind === 'X') response.end(LARGE);
    else incoming.on('end', () => response.end('ok'));
  });
  const gateway = await gatewayProcess(t, { slowOrigin, origin, perAddress: 2 * connections });
  await probe(t, gateway.port, 1000); // Warm.
  const before = await probe(t, gateway.port, beforeSeconds * 1000);
  const memoryBefore = gateway.memoryMb();

  // It ends when the gateway has shown all of its clients out: then others come.
  let isOver = false;
  let child: ChildProcess | undefined;
  let ended: Promise<unknown> = Promise.resolve();
  const come = () => {
    child = spawn(
      'slowhttptest',
      [
        ...[`-${kind}`, '-c', `${connections}`, '-r', `${Math.ceil(connections / 2)}`, '-l', `${seconds}`, '-p', '10'],
        ...['-u', `http://127.0.0.1:${gateway.port}/slow`, '-v', '0'],
        ...(kind === 'X' ? ['-w', '16384', '-y', '32768', '-n', '5', '-z', '32'] : ['-i', '2', '-s', '8192']),
      ],
      { stdio: 'ignore' },
    );
    ended = once(child, 'exit').then(() => {
      if (!isOver) come();
    });
  };
  const leave = async () => {
    isOver = true;
    child?.kill('SIGKILL');
    await ended;
  };
  t.after(leave);
  come();
  let slow = 0;
  let most = memoryBefore;
  const look = () => {
    slow = Math.max(slow, gateway.sockets());
    most = Math.max(most, gateway.memoryMb());
  };
  // On a busy machine some are shown out before the last ones come.
  const patience = performance.now() + 15_000;
  await until(
    () => {
      look();
      return slow >= connections * 0.9 || (slow > 0 && performance.now() > patience);
    },
    { what: `${connections} slow clients are there`, timeoutMs: 60_000, everyMs: 100 },
  );
  const looking = setInterval(look, 500);
  try {
    const during = await probe(t, gateway.port, Math.max(2000, (seconds - 6) * 1000));
    return { kind, before, during, slow, memoryMb: { before: memoryBefore, most } };
  } finally {
    clearInterval(looking);
    await leave();
  }
}
