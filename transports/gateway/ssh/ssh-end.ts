/** One of a login's two SSH connections as a place to write to: how much it takes now, and when it takes more. */
import type { Duplex } from 'node:stream';
import type { Channel } from 'ssh2';
import { afterMessage, isExchanging, localId, queuedPackets, type SshPeer, windowOf } from './internals.ts';

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
