/**
 * Three gateway processes, many hostnames at once, and SIGKILLs in between: each hostname has its certificate in the end, and no more orders
 * were placed than hostnames and kills. Then names that nobody mapped are asked for: no order comes of them. The same seed makes the same
 * choices; what meets what in time differs.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { connect } from 'node:tls';
import { z } from 'zod';
import { seeded } from '../chaos/chaos.ts';
import { pause } from '../pause.ts';
import type { Cleanup } from '../temp.ts';
import { type GatewayProcesses, openGatewayProcesses } from './gateways.ts';
import { nameFlood } from './name-flood.ts';

export interface CertificateTrialOptions {
  readonly seed: number;
  /** Hostnames that are mapped, all at once. */
  readonly names: number;
  /** Gateways that get SIGKILL while they order; another is started for each. */
  readonly kills: number;
  /** Hellos with names that nobody mapped, and how many at a time. */
  readonly strangers: number;
  readonly atOnce: number;
}

export interface CertificateTrialReport extends CertificateTrialOptions {
  readonly orders: number;
  /** From the first mapping to the last certificate. */
  readonly issuedMs: number;
  readonly refused: number;
  readonly floodMs: number;
  /** Handshakes of mapped hostnames meanwhile, all good, and the longest, ms. */
  readonly handshakes: number;
  readonly longestMs: number;
  /** Resident memory of the gateways together, MiB. */
  readonly memoryMb: { readonly before: number; readonly after: number };
}

/** Runs it. Needs pebble and a Docker Engine. Rejects with what is not as it should be, and the seed. */
export async function runCertificateTrial(
  options: CertificateTrialOptions,
  onProgress: (line: string) => void = () => {},
): Promise<CertificateTrialReport> {
  const ends: (() => Promise<void> | void)[] = [];
  const cleanup: Cleanup = { after: (end) => void ends.unshift(end) };
  try {
    return await trial(cleanup, options, onProgress);
  } catch (error) {
    throw new Error(`seed ${options.seed}`, { cause: error });
  } finally {
    for (const end of ends) await end();
  }
}

async function trial(
  t: Cleanup,
  options: CertificateTrialOptions,
  onProgress: (line: string) => void,
): Promise<CertificateTrialReport> {
  const random = seeded(options.seed);
  const processes = await openGatewayProcesses(t);
  await Promise.all([processes.start(), processes.start(), processes.start()]);
  const names = Array.from({ length: options.names }, (_, n) => `n${n}.example.com`);
  const began = performance.now();
  await Promise.all(names.map((name) => processes.map(name)));
  for (let n = 0; n < options.kills; n++) {
    await pause(random() * 500, 'fault');
    const victim = processes.gateways[Math.floor(random() * processes.gateways.length)];
    await victim?.kill();
    await processes.start();
  }
  await processes.issued(...names);
  const issuedMs = Math.round(performance.now() - began);
  const orders = processes.pebble.orders();
  onProgress(`${names.length} certificates by ${orders} orders in ${issuedMs} ms`);
  // One that dies between the authority's answer and its own note of it leaves an order that nobody knows.
  assert.ok(orders >= names.length && orders <= names.length + options.kills * 20, `${orders} orders`);
  if (options.kills === 0) assert.equal(orders, names.length);

  const certificates = () =>
    processes.db.many(z.object({ n: z.number() }), 'select count(*)::int as n from certificates');
  const known = await certificates();
  const ca = await processes.pebble.root();
  const before = memoryOf(processes);
  const honest = new Visitors(processes.balancer.port, names, ca);
  const flood = await nameFlood(processes.balancer.port, {
    ...{ count: options.strangers, atOnce: options.atOnce },
    onProgress,
    parents: ['nobody.example', 'example.com', names[0] ?? '', 'cloud.test'],
  });
  const { handshakes, longestMs } = await honest.end();
  assert.deepEqual([flood.refused, flood.others], [options.strangers, {}]);
  assert.equal(processes.pebble.orders(), orders, 'orders after all these names');
  assert.deepEqual(await certificates(), known);
  assert.ok(handshakes > 0);
  return {
    ...{ ...options, orders, issuedMs, refused: flood.refused, floodMs: flood.tookMs, handshakes, longestMs },
    memoryMb: { before, after: memoryOf(processes) },
  };
}

function memoryOf({ gateways }: GatewayProcesses): number {
  return gateways
    .map(({ pid }) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0))
    .reduce((sum, kb) => sum + Math.round(kb / 1024), 0);
}

/** Visits mapped hostnames one after the other until it is ended; rejects then if one was not served well. */
class Visitors {
  #isOver = false;
  #handshakes = 0;
  #longestMs = 0;
  readonly #done: Promise<void>;

  constructor(port: number, names: readonly string[], ca: string) {
    this.#done = this.#visit(port, names, ca);
    this.#done.catch(() => {});
  }

  async end(): Promise<{ handshakes: number; longestMs: number }> {
    this.#isOver = true;
    await this.#done;
    return { handshakes: this.#handshakes, longestMs: Math.round(this.#longestMs) };
  }

  async #visit(port: number, names: readonly string[], ca: string): Promise<void> {
    for (let n = 0; !this.#isOver; n++) {
      const began = performance.now();
      await new Promise<void>((resolve, reject) => {
        const socket = connect({ port, host: '127.0.0.1', servername: names[n % names.length] ?? '', ca });
        socket.once('error', reject);
        socket.once('secureConnect', () => {
          socket.destroy();
          resolve();
        });
      });
      this.#handshakes++;
      this.#longestMs = Math.max(this.#longestMs, performance.now() - began);
      await pause(20, 'pace');
    }
  }
}
