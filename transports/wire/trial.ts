/**
 * Whether the handles of this Node.js do what wires expect of them: two connections over loopback, as the gateway makes
 * them. One is plain, the other's server speaks TLS over the handle (with a shared key, which needs no certificate).
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { connect as connectTls, createSecureContext, TLSSocket } from 'node:tls';
import { errorText } from '../../lib/errors.ts';
import { withTimeout } from '../../lib/waiting.ts';
import { HandleWire } from './handle-wire.ts';
import { handleOf, internals, newTcpHandle, takeHandles } from './handles.ts';
import { NOBODY } from './wire.ts';

/** It takes some milliseconds; a machine that is busy takes a while. */
const TRIAL_MS = 10_000;
const TEXT = 'latin1: \u00e9\u00ff';
/** More than one read brings. */
const MANY = Buffer.alloc(150_000, 'a pattern whose length is no power of two');
const CIPHER = 'PSK-AES128-GCM-SHA256';

/** What does not come out as it should. */
class TrialDifference extends Error {}

/** What handles fail at, in words; undefined: all is as expected. Leaves nothing open. */
export async function handlesFail(): Promise<string | undefined> {
  if (internals === undefined) return 'its parts are not where they were';
  const ends: (() => void)[] = [];
  try {
    return await withTimeout(tryAll(ends), TRIAL_MS, () => `no answer within ${TRIAL_MS / 1000} s`);
  } catch (error) {
    return errorText(error);
  } finally {
    for (const end of ends.reverse()) end();
  }
}

async function tryAll(ends: (() => void)[]): Promise<undefined> {
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true });
  ends.push(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new TrialDifference('a socket has no port');
  const waiting: ((wire: HandleWire) => void)[] = [];
  const takes = takeHandles(server, (handle) => {
    const wire = new HandleWire(handle);
    ends.push(() => wire.destroy());
    waiting.shift()?.(wire);
  });
  if (!takes) throw new TrialDifference('a listening socket does not hand out handles');
  const next = () => new Promise<HandleWire>((resolve) => waiting.push(resolve));
  await Promise.all([sends(address.port, ends), next().then(receives)]);
  await Promise.all([tlsClient(address.port, ends), next().then((wire) => tlsServer(wire, ends))]);
}

/**
 * Connects, writes a text and bytes, and ends once both are sent: what is written before the connection is there waits.
 * Resolves when the other side has ended, too, and all is closed.
 */
function sends(port: number, ends: (() => void)[]): Promise<void> {
  const { handle, request } = newTcpHandle();
  const wire = new HandleWire(handle);
  ends.push(() => wire.destroy());
  return new Promise((resolve, reject) => {
    let isOpen = false;
    let hasEnded = false;
    const onDrain = () => (isOpen ? wire.end() : reject(new TrialDifference('a write is done too early')));
    const onEnd = () => {
      hasEnded = true;
    };
    const onClose = () => (hasEnded ? resolve() : reject(new TrialDifference('an end is not told of')));
    wire.reader = { ...NOBODY, onDrain, onEnd, onClose };
    request.oncomplete = (status) => {
      if (status !== 0) reject(new TrialDifference(`a connection is not opened: ${status}`));
      isOpen = true;
      handle.setNoDelay(true);
      wire.resume();
    };
    const error = handle.connect(request, '127.0.0.1', port);
    if (error !== 0) reject(new TrialDifference(`a connection is not begun: ${error}`));
    if (wire.write(TEXT)) reject(new TrialDifference('a write that cannot be done at once does not wait'));
    wire.writeStable(MANY);
  });
}

/** Reads both, and ends after the other side. */
function receives(wire: HandleWire): Promise<void> {
  const all = Buffer.concat([Buffer.from(TEXT, 'latin1'), MANY]);
  return new Promise((resolve, reject) => {
    let at = 0;
    const onData = (bytes: Buffer) => {
      if (!bytes.equals(all.subarray(at, at + bytes.length)))
        reject(new TrialDifference('what comes is not what was sent'));
      at += bytes.length;
    };
    const onEnd = () => {
      if (at !== all.length) reject(new TrialDifference('an end comes early'));
      wire.end();
    };
    wire.reader = { ...NOBODY, onData, onEnd, onClose: resolve };
    wire.resume();
  });
}

const KEY = randomBytes(16);
const LIMITS = { ciphers: CIPHER, maxVersion: 'TLSv1.2' } as const;

/** Speaks TLS over the wire, and sends back what it reads. Resolves when all is closed. */
function tlsServer(wire: HandleWire, ends: (() => void)[]): Promise<void> {
  const options = { isServer: true, secureContext: createSecureContext(LIMITS), pskCallback: () => KEY };
  const secured = new TLSSocket(wire.toSocket(), options);
  ends.push(() => secured.destroy());
  return new Promise((resolve, reject) => {
    secured.once('error', reject);
    secured.once('secure', () => {
      const handle = handleOf(secured);
      if (handle === undefined) {
        reject(new TrialDifference('TLS has no handle'));
        return;
      }
      const inner = new HandleWire(handle, { socket: secured });
      const onData = (bytes: Buffer) => void inner.write(bytes);
      inner.reader = { ...NOBODY, onData, onEnd: () => inner.end(), onClose: resolve };
      inner.resume();
    });
  });
}

/** Sends a text, and expects the same back. */
async function tlsClient(port: number, ends: (() => void)[]): Promise<void> {
  const client = connectTls({
    ...LIMITS,
    host: '127.0.0.1',
    port,
    checkServerIdentity: () => undefined,
    pskCallback: () => ({ psk: KEY, identity: 'trial' }),
  });
  ends.push(() => client.destroy());
  client.end(TEXT);
  const parts: Buffer[] = [];
  for await (const part of client) parts.push(part);
  if (Buffer.concat(parts).toString() !== TEXT) throw new TrialDifference('what comes over TLS is not what was sent');
}
