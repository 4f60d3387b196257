import { Agent, request } from 'node:http';
import { createServer } from 'node:net';
import { CodedError } from '../../lib/errors.ts';

/** Why a server could not be opened: the address is taken or not ours, or the adapter asked for is missing here. */
export class ListenError extends CodedError<'address_unavailable' | 'adapter_unavailable'> {}

/** Resolves when `host` is an address of this machine that one may listen on; else rejects with ListenError. */
export function ownAddress(host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', (cause) =>
      reject(new ListenError('address_unavailable', `${host} is no address of this machine.`, { cause })),
    );
    probe.listen(0, host, () => probe.close(() => resolve()));
  });
}

/** How long an address may take to say that somebody listens on it, in milliseconds. */
const PROBE_MS = 1_000;

/**
 * Rejects with ListenError when something accepts connections on the address. For listeners that would share a taken
 * port unnoticed; asking by binding instead would also refuse a port whose last owner ended a minute ago.
 */
export function claimable(host: string, port: number): Promise<void> {
  if (port === 0) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const agent = new Agent({ timeout: PROBE_MS });
    const probe = request({ host, port, agent });
    const settle = (taken: boolean) => {
      probe.destroy();
      agent.destroy();
      if (taken) reject(new ListenError('address_unavailable', `Cannot listen on ${host}:${port}: it is taken.`));
      else resolve();
    };
    probe.once('error', () => settle(false));
    probe.once('timeout', () => settle(false));
    // The request itself is never sent: only its connection counts.
    probe.once('socket', (socket) => socket.once('connect', () => settle(true)));
  });
}

/**
 * Why this address cannot be listened on, as the end of "it is ..."; undefined when it can. Node lets an address be
 * taken again that was only just let go (SO_REUSEADDR), so a restart finds its ports free.
 */
export function portProblem(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', (error) => {
      const code = 'code' in error ? error.code : undefined;
      if (code === 'EADDRINUSE') resolve('taken');
      else resolve(code === 'EACCES' ? "root's: ports below 1024 are" : `refused, ${error.message}`);
    });
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(undefined)));
  });
}

/** A port of `host` that nothing listens on at the moment: `wanted`, unless that is 0 or taken. */
export async function freePort(host: string, wanted: number): Promise<number> {
  if (wanted !== 0 && (await portProblem(host, wanted)) === undefined) return wanted;
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen({ host, port: 0, exclusive: true }, () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}
