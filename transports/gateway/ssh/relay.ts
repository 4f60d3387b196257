/** Joins a channel of the client with one of the container, at the pace of the slower, and loses nothing at the end. */
import type { Duplex, Readable } from 'node:stream';
import type { Channel, Client, ClientChannel, Connection, ServerChannel } from 'ssh2';
import {
  afterMessage,
  isExchanging,
  localId,
  openAgent,
  queuedPackets,
  type SshPeer,
  takesData,
  windowOf,
} from './internals.ts';

/** The two connections of a login. */
export interface Sides {
  readonly client: SshEnd;
  readonly container: SshEnd;
}

/** The same with what ssh2 has of them. */
export interface LoginConnections {
  readonly client: Connection;
  readonly container: Client;
  readonly sides: Sides;
}

/** How a process ended (RFC 4254 section 6.10). */
type Exit = { readonly code: number } | { readonly signal: string; readonly isCore: boolean; readonly text: string };

/**
 * Joins a session (RFC 4254 section 6). The end of the container's half goes on in this order: all output, then how the
 * process ended, then EOF, then the close; a close that overtakes output cuts it off. Resolves when both are closed.
 * Must be called in the turn in which `inside` opened. `hungUp` says that the client has closed its half already.
 */
export async function relaySession(outside: ServerChannel, inside: ClientChannel, sides: Sides): Promise<void> {
  const { client, container } = sides;
  let exit: Exit | undefined;
  inside.on('exit', (code: number | null, signal?: string, isCore?: unknown, text?: string) => {
    exit =
      code === null
        ? { signal: (signal ?? '').replace(/^SIG/, ''), isCore: Boolean(isCore), text: text ?? '' }
        : { code };
  });
  for (const stream of [outside, outside.stderr, inside, inside.stderr]) stream.on('error', () => {});
  const closed = new Promise<void>((resolve) => container.whenClosed(inside, resolve));
  const output = pipeChannel(inside, (bytes) => outside.write(bytes), outside, client);
  const errors = pipeChannel(inside.stderr, (bytes) => outside.stderr.write(bytes), outside, client);
  const input = pipeChannel(outside, (bytes) => inside.write(bytes), inside, container);
  void input.done.then(() => inside.eof());
  client.whenClosed(outside, () => {
    // Nobody reads any more: the process is to hear of it at once, whatever it still has to read.
    for (const one of [input, output, errors]) one.discard();
    inside.close();
  });
  await Promise.all([output.done, errors.done, closed]);
  input.discard();
  if (exit !== undefined) {
    if ('code' in exit) outside.exit(exit.code);
    else outside.exit(exit.signal, exit.isCore, exit.text);
  }
  outside.eof();
  outside.close();
}

/** Joins two forwarded connections. Each half ends for itself: a program may end what it says and go on listening. */
async function relayForward(outside: Channel, inside: Channel, sides: Sides): Promise<void> {
  const { client, container } = sides;
  for (const stream of [outside, inside]) stream.on('error', () => {});
  const down = pipeChannel(inside, (bytes) => outside.write(bytes), outside, client);
  const up = pipeChannel(outside, (bytes) => inside.write(bytes), inside, container);
  void down.done.then(() => outside.eof());
  void up.done.then(() => inside.eof());
  // A side that is closed takes nothing more; what it said before goes on to the other first.
  client.whenClosed(outside, () => {
    down.discard();
    void up.done.then(() => inside.close());
  });
  container.whenClosed(inside, () => {
    up.discard();
    void down.done.then(() => outside.close());
  });
  await Promise.all([down.done, up.done]);
  outside.close();
  inside.close();
}

/** One direction of a relay. */
interface ChannelPipe {
  /** Resolves when the source has ended and all of it was sent or, once nobody takes it, thrown away. */
  readonly done: Promise<void>;
  /** From here on the rest is thrown away. */
  discard(): void;
}

/**
 * Starts one. Nothing is written beyond the target's window: ssh2 keeps only one rest a channel when that is exceeded,
 * and with output and error output in one channel would send some of it twice.
 */
function pipeChannel(source: Readable, write: (bytes: Buffer) => unknown, target: Channel, side: SshEnd): ChannelPipe {
  let rest: Buffer | undefined;
  let isEnded = false;
  let isDiscarding = false;
  let finish: () => void = () => {};
  const done = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const unwatch = side.watch(() => source.readableLength + (rest?.length ?? 0));

  const send = () => {
    while (rest !== undefined) {
      if (isDiscarding || side.socket.destroyed || !takesData(target)) {
        rest = undefined;
        break;
      }
      const room = side.room(target);
      if (room === 0) {
        source.pause();
        side.whenRoom(target, send);
        return;
      }
      const part: Buffer = rest.length <= room ? rest : rest.subarray(0, room);
      rest = part.length === rest.length ? undefined : rest.subarray(part.length);
      write(part);
    }
    if (isEnded) {
      unwatch();
      finish();
    } else source.resume();
  };
  source.on('data', (chunk: Buffer) => {
    // A paused stream may deliver once more.
    rest = rest === undefined ? chunk : Buffer.concat([rest, chunk]);
    send();
  });
  source.on('end', () => {
    isEnded = true;
    send();
  });
  source.on('error', () => {
    isEnded = true;
    isDiscarding = true;
    send();
  });
  return {
    done,
    discard: () => {
      isDiscarding = true;
      send();
    },
  };
}

/** With so much unsent in the socket no more is written. */
const UNSENT_BYTES = 256 * 1024;

/** A connection. Writes wait for what its peer grants, and for its socket to empty, as a peer may grant anything. */
export class SshEnd {
  readonly peer: SshPeer;
  readonly socket: Duplex;
  readonly #waiting = new Map<() => void, number>();
  readonly #onClosed = new Map<number, () => void>();
  /** Channels that are relayed, with what waits in them. */
  readonly #buffers = new Set<() => number>();

  constructor(peer: SshPeer, socket: Duplex) {
    this.peer = peer;
    this.socket = socket;
    afterMessage(peer, 'CHANNEL_WINDOW_ADJUST', (id) => this.#wake(id));
    afterMessage(peer, 'CHANNEL_CLOSE', (id) => {
      this.#wake(id);
      const closed = this.#onClosed.get(id);
      this.#onClosed.delete(id);
      closed?.();
    });
    const wakeAll = () => this.#wake(undefined);
    peer.on('handshake', wakeAll).on('close', () => {
      wakeAll();
      for (const closed of [...this.#onClosed.values()]) closed();
      this.#onClosed.clear();
    });
    socket.on('drain', wakeAll);
  }

  /** Bytes that may be written into a channel now. */
  room(channel: Channel): number {
    if (this.socket.destroyed || this.socket.writableLength >= UNSENT_BYTES || isExchanging(this.peer)) return 0;
    return windowOf(channel);
  }

  /** Calls `ready` once, when there may be room again. */
  whenRoom(channel: Channel, ready: () => void): void {
    this.#waiting.set(ready, localId(channel));
  }

  /** Calls `closed` once, when the peer has closed the channel or the connection is over. */
  whenClosed(channel: Channel, closed: () => void): void {
    this.#onClosed.set(localId(channel), closed);
  }

  /** Counts what `bytes` says as waiting here, until the function that comes back is called. */
  watch(bytes: () => number): () => void {
    this.#buffers.add(bytes);
    return () => this.#buffers.delete(bytes);
  }

  /** Bytes that were read of this side's peer and wait to go on, and bytes that wait to be sent to it. */
  get waitingBytes(): number {
    let bytes = this.unsentBytes;
    for (const buffer of this.#buffers) bytes += buffer();
    return bytes;
  }

  /** Bytes that wait to be sent; packets held back by a key exchange count as if they were full of small things. */
  get unsentBytes(): number {
    return this.socket.writableLength + queuedPackets(this.peer) * 256;
  }

  #wake(id: number | undefined): void {
    for (const [ready, channel] of [...this.#waiting]) {
      if (id !== undefined && channel !== id) continue;
      this.#waiting.delete(ready);
      ready();
    }
  }
}

/** Ports and sockets of a container that a connection may listen on. */
const MAX_LISTENERS = 32;

/** What ssh2 hands with a channel that a peer wants to open. */
type Accept = () => Channel;

/** Serves a login's forwarding. Connections begin inside the container, whose own server decides where they lead. */
export function serveForwards({ client, container, sides }: LoginConnections): void {
  /** `open` asks one side for a channel; once it is there, the other side's is taken. */
  const join = (
    accept: Accept,
    reject: () => void,
    open: (opened: (error: Error | undefined, channel: Channel) => void) => void,
    isFromClient: boolean,
  ): void => {
    try {
      open((error, channel) => {
        if (error) return reject();
        const other: Channel | undefined = accept();
        if (other === undefined) return void channel.close();
        void (isFromClient ? relayForward(other, channel, sides) : relayForward(channel, other, sides));
      });
    } catch {
      reject(); // The other connection ended in this moment.
    }
  };

  client.on('tcpip', (accept, reject, { srcIP, srcPort, destIP, destPort }) =>
    join(accept, reject, (opened) => container.forwardOut(srcIP, srcPort, destIP, destPort, opened), true),
  );
  client.on('openssh.streamlocal', (accept, reject, { socketPath }: { socketPath: string }) =>
    join(accept, reject, (opened) => container.openssh_forwardOutStreamLocal(socketPath, opened), true),
  );
  container.on('tcp connection', ({ destIP, destPort, srcIP, srcPort }, accept, reject) =>
    join(accept, reject, (opened) => client.forwardOut(destIP, destPort, srcIP, srcPort, opened), false),
  );
  container.on('unix connection', ({ socketPath }, accept, reject) =>
    join(accept, reject, (opened) => client.openssh_forwardOutStreamLocal(socketPath, opened), false),
  );
  container.on('x11', (_info, accept: Accept, reject: () => void) =>
    join(accept, reject, (opened) => openAgent(client, opened), false),
  );
  serveListening(client, container);
}

/** Requests to listen inside of the container. */
function serveListening(client: Connection, container: Client): void {
  let listeners = 0;
  type Reply = ((port?: number) => void) | undefined;
  client.on('request', (accept: Reply, reject: (() => void) | undefined, name: string, info: unknown) => {
    const { bindAddr, bindPort, socketPath } = fieldsOf(info);
    const isNew = name === 'tcpip-forward' || name === 'streamlocal-forward@openssh.com';
    if (isNew && listeners >= MAX_LISTENERS) return reject?.();
    if (isNew) listeners++;
    const done = (error?: Error | null, port?: number) => {
      // One that could not be had, or one that was given up.
      if (isNew === Boolean(error)) listeners--;
      if (error) reject?.();
      else accept?.(bindPort === 0 ? port : undefined);
    };
    try {
      if (name === 'tcpip-forward') container.forwardIn(bindAddr, bindPort, done);
      else if (name === 'cancel-tcpip-forward') container.unforwardIn(bindAddr, bindPort, done);
      else if (name === 'streamlocal-forward@openssh.com') container.openssh_forwardInStreamLocal(socketPath, done);
      else if (name === 'cancel-streamlocal-forward@openssh.com')
        container.openssh_unforwardInStreamLocal(socketPath, done);
      else reject?.();
    } catch (error) {
      // The container's connection ended in this moment, or its server cannot do this.
      done(error instanceof Error ? error : new Error(String(error)));
    }
  });
}

function fieldsOf(info: unknown): { bindAddr: string; bindPort: number; socketPath: string } {
  const fields = { bindAddr: '', bindPort: 0, socketPath: '' };
  if (typeof info !== 'object' || info === null) return fields;
  if ('bindAddr' in info && typeof info.bindAddr === 'string') fields.bindAddr = info.bindAddr;
  if ('bindPort' in info && typeof info.bindPort === 'number') fields.bindPort = info.bindPort;
  if ('socketPath' in info && typeof info.socketPath === 'string') fields.socketPath = info.socketPath;
  return fields;
}
