/** What the library needs of its surroundings: requests and sockets. */
import { TroupeError } from './errors.ts';

/** A request. */
export interface TransportRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array<ArrayBuffer> | undefined;
  readonly signal: AbortSignal;
}

/** An answer, whatever its status. */
export interface TransportAnswer {
  readonly status: number;
  readonly body: string;
  /** The body as it came. */
  readonly bytes?: Uint8Array;
  header(name: string): string | undefined;
}

/** What a socket tells. After `closed` it tells nothing more. */
export interface SocketListener {
  opened(): void;
  text(data: string): void;
  binary(data: Uint8Array): void;
  /** `refusal`: the answer in place of the upgrade, where it can be seen. Browsers do not show it. */
  closed(code: number, reason: string, refusal?: TransportAnswer | undefined): void;
}

/** A socket that was asked for; it may not be open yet. */
export interface TransportSocket {
  send(data: string | Uint8Array): void;
  /** Without a code: 1000. */
  close(code?: number): void;
  /** Bytes that were sent and wait for the connection, where the transport knows. */
  readonly waitingBytes?: number;
  /** Takes nothing from the connection until it is let go. A browser cannot. */
  hold?(isHeld: boolean): void;
}

/** Requests and sockets of a browser, of Node, or of a test. */
export interface ClientTransport {
  /** Rejects with TroupeError (`unreachable`, `untrusted`), or with the signal's reason. */
  send(request: TransportRequest): Promise<TransportAnswer>;
  connect(url: string, headers: Readonly<Record<string, string>>, listener: SocketListener): TransportSocket;
  /** Whether a socket can carry headers. Where it cannot, a token goes into the query. */
  readonly socketHeaders: boolean;
}

/** As much of a browser's WebSocket as is used. */
interface WebSocketLike {
  binaryType: string;
  readonly bufferedAmount: number;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(code?: number): void;
}

/** The constructor of a socket, as browsers have it. */
export type WebSocketConstructor = new (url: string) => WebSocketLike;

/** `fetch` and WebSocket as browsers have them. Cookies of the page's own origin are sent along. */
export function webTransport(fetching: typeof fetch, socketClass: WebSocketConstructor): ClientTransport {
  return {
    socketHeaders: false,
    async send({ method, url, headers, body, signal }) {
      try {
        const credentials = 'same-origin';
        const init = { method, headers: { ...headers }, signal, credentials, redirect: 'error' } as const;
        const response = await fetching(url, body === undefined ? init : { ...init, body });
        const bytes = new Uint8Array(await response.arrayBuffer());
        const header = (name: string) => response.headers.get(name) ?? undefined;
        return { status: response.status, body: new TextDecoder().decode(bytes), bytes, header };
      } catch (cause) {
        if (signal.aborted) throw signal.reason;
        throw new TroupeError('unreachable', 'The platform cannot be reached.', { cause });
      }
    },
    connect(url, _headers, listener) {
      const socket = new socketClass(url);
      socket.binaryType = 'arraybuffer';
      socket.onopen = () => listener.opened();
      socket.onmessage = ({ data }: { readonly data: unknown }) => {
        if (typeof data === 'string') listener.text(data);
        else if (data instanceof ArrayBuffer) listener.binary(new Uint8Array(data));
      };
      socket.onclose = ({ code, reason }: { readonly code: number; readonly reason: string }) =>
        listener.closed(code, reason);
      return {
        // A browser takes no memory that threads share.
        send: (data) => socket.send(typeof data === 'string' ? data : data.slice()),
        close: (code = 1000) => socket.close(code),
        get waitingBytes() {
          return socket.bufferedAmount;
        },
      };
    },
  };
}
