/** Ordinary clients whose waiting is measured: a few connections, kept alive, each asking again a moment after its answer. */
import { connect, type Socket } from 'node:net';
import { pause } from '../pause.ts';
import type { Cleanup } from '../temp.ts';

export interface Waits {
  readonly requests: number;
  readonly failed: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  readonly most: number;
}

const CLIENTS = 8;
const PAUSE_MS = 5;
const LONGEST_MS = 10_000;

/** Asks `GET /probe` on `port` for `ms`, from an address of this machine's own, and says how long answers took. */
export async function probe(
  t: Cleanup,
  port: number,
  ms: number,
  localAddress = '127.0.0.9',
  host = 'a.test',
): Promise<Waits> {
  const waits: number[] = [];
  let failed = 0;
  const until = performance.now() + ms;
  const one = (socket: Socket) =>
    new Promise<boolean>((resolve) => {
      let text = '';
      const done = (good: boolean) => {
        clearTimeout(timer);
        socket.off('data', onData).off('close', onClose);
        resolve(good);
      };
      const onData = (chunk: Buffer) => {
        text += chunk.toString('latin1');
        if (text.endsWith('probed')) done(text.startsWith('HTTP/1.1 200 '));
        // The gateway's own answers are no answers here.
        else if (/^HTTP\/1\.1 [45]/.test(text)) done(false);
      };
      const onClose = () => done(false);
      const timer = setTimeout(() => done(false), LONGEST_MS);
      socket.on('data', onData).on('close', onClose);
      socket.write(`GET /probe HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    });
  const open = () => {
    const socket = connect({ port, host: '127.0.0.1', localAddress, noDelay: true });
    socket.on('error', () => {});
    t.after(() => void socket.destroy());
    return socket;
  };
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      let socket = open();
      while (performance.now() < until) {
        const began = performance.now();
        const good = await one(socket);
        waits.push(performance.now() - began);
        if (!good) {
          failed++;
          socket.destroy();
          socket = open();
        }
        await pause(PAUSE_MS, 'pace');
      }
      socket.destroy();
    }),
  );
  waits.sort((a, b) => a - b);
  const at = (part: number) =>
    Number((waits[Math.min(waits.length - 1, Math.floor(waits.length * part))] ?? Number.NaN).toFixed(2));
  return { requests: waits.length, failed, p50: at(0.5), p99: at(0.99), most: at(1) };
}
