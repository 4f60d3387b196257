/** The gateway's listeners in a process of their own, so that their memory and time are theirs alone. Argument: JSON of `ProcessOptions`. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { createSecureContext } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { GatewayListeners } from '../../../transports/gateway/listeners.ts';
import type { Cleanup } from '../temp.ts';

const optionsSchema = z.object({
  /** Where requests go whose path begins with `/slow`, and all others. */
  slowOrigin: z.number(),
  origin: z.number(),
  perAddress: z.number(),
});
export type ProcessOptions = z.output<typeof optionsSchema>;

const readySchema = z.object({ http: z.number() });

export interface GatewayProcess {
  readonly port: number;
  readonly child: ChildProcess;
  /** Its resident memory now, MiB. */
  memoryMb(): number;
  /** Sockets that it has open. */
  sockets(): number;
}

/** Starts it; it ends with `t`. */
export async function gatewayProcess(t: Cleanup, options: ProcessOptions): Promise<GatewayProcess> {
  const file = fileURLToPath(import.meta.url);
  const loader = file.endsWith('.js') ? ['--enable-source-maps'] : ['--import', 'tsx'];
  const child = spawn(process.execPath, [...loader, file, JSON.stringify(options)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  t.after(async () => {
    child.kill('SIGTERM');
    await ended;
  });
  const line = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
  const { http } = readySchema.parse(JSON.parse(`${line.value}`));
  const status = (name: string) => {
    const [, value] =
      new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${child.pid}/status`, 'utf8')) ?? [];
    return Number(value);
  };
  return {
    port: http,
    child,
    memoryMb: () => Math.round(status('VmRSS') / 1024),
    // Of all sockets of the machine, those with our port at this end: connections of clients.
    sockets: () => {
      const port = http.toString(16).toUpperCase().padStart(4, '0');
      const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n');
      return lines.filter((one) => new RegExp(`^ *\\d+: [0-9A-F]{8}:${port} [0-9A-F:]{13} 01 `).test(one)).length;
    },
  };
}

async function main(): Promise<void> {
  const options = optionsSchema.parse(JSON.parse(process.argv[2] ?? ''));
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => log };
  const listeners = await GatewayListeners.open({
    host: '127.0.0.1',
    ports: { http: 0, https: 0, ssh: 0 },
    // Nobody speaks SSH here.
    ssh: { serve: (socket) => void socket.destroy(), close: async () => {} },
    log,
    limits: { perAddress: options.perAddress },
    // All slow clients come from one address, and none is to be turned away.
    upstreamLimits: { maxPerOrigin: options.perAddress, maxPerClient: options.perAddress },
    decider: {
      decide: ({ target }) => ({
        forward: { host: '127.0.0.1', port: target.startsWith('/slow') ? options.slowOrigin : options.origin },
        target,
      }),
      decideName: () => 'refuse',
      adopt: () => () => {},
      clients: { add: () => {}, remove: () => {} },
    },
    certificates: { platform: { context: createSecureContext() } },
    onAccess: () => {},
  });
  process.stdout.write(`${JSON.stringify(listeners.ports)}\n`);
  await once(process, 'SIGTERM');
  await listeners.close(0);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
