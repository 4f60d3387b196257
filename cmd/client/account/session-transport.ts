/** Requests of one command: they end with it, and its sockets wait for whoever reads its output. */
import { TroupeError } from '../../../client/index.ts';
import type { ClientTransport, SocketListener, TransportSocket } from '../../../client/transport.ts';
import type { AccountOutput } from './terminal.ts';

/** Bytes of output that may wait; past it nothing more is taken of sockets. */
const MOST_WAITING = 256 * 1024;
const NORMAL = 1000;

/** Wraps `inner`. Once `stop` is aborted all requests fail and all sockets are at their end. */
export class SessionTransport implements ClientTransport {
  readonly socketHeaders = true;
  readonly #inner: ClientTransport;
  readonly #outputs: readonly AccountOutput[];
  readonly #stop: AbortSignal;
  readonly #sockets = new Map<TransportSocket, SocketListener>();
  #isHeld = false;

  constructor(inner: ClientTransport, outputs: readonly AccountOutput[], stop: AbortSignal) {
    this.#inner = inner;
    this.#outputs = outputs;
    this.#stop = stop;
    stop.addEventListener('abort', () => this.#end(), { once: true });
    for (const output of outputs) output.on('drain', () => this.#look());
  }

  async send(request: Parameters<ClientTransport['send']>[0]): ReturnType<ClientTransport['send']> {
    const signal = AbortSignal.any([request.signal, this.#stop]);
    try {
      return await this.#inner.send({ ...request, signal });
    } catch (error) {
      if (this.#stop.aborted) throw new TroupeError('cancelled', 'Interrupted.', { cause: error });
      throw error;
    }
  }

  connect(url: string, headers: Readonly<Record<string, string>>, listener: SocketListener): TransportSocket {
    const after = (tell: () => void) => {
      tell();
      this.#look();
    };
    const socket = this.#inner.connect(url, headers, {
      opened: () => listener.opened(),
      text: (data) => after(() => listener.text(data)),
      binary: (data) => after(() => listener.binary(data)),
      closed: (code, reason, refusal) => {
        if (this.#sockets.delete(socket)) listener.closed(code, reason, refusal);
      },
    });
    this.#sockets.set(socket, listener);
    if (this.#isHeld) socket.hold?.(true);
    if (this.#stop.aborted) queueMicrotask(() => this.#end());
    return {
      send: (data) => socket.send(data),
      close: (code) => {
        this.#sockets.delete(socket);
        socket.close(code);
      },
      hold: (isHeld) => socket.hold?.(isHeld || this.#isHeld),
      get waitingBytes() {
        return socket.waitingBytes ?? 0;
      },
    };
  }

  #look(): void {
    const isHeld = this.#outputs.some(({ writableLength, destroyed }) => !destroyed && writableLength > MOST_WAITING);
    if (isHeld === this.#isHeld) return;
    this.#isHeld = isHeld;
    for (const socket of this.#sockets.keys()) socket.hold?.(isHeld);
  }

  #end(): void {
    for (const [socket, listener] of [...this.#sockets]) {
      this.#sockets.delete(socket);
      socket.close();
      listener.closed(NORMAL, '');
    }
  }
}
