/** Both ends of a WebSocket under test: the client, and a record of what the server's side was told. */
import { once } from 'node:events';
import { type ClientOptions, WebSocket } from 'ws';
import type { HttpServer, Socket, SocketFrame, SocketHandlers } from '../../../proto/ports/http.ts';
import type { Cleanup } from '../temp.ts';

/** Remembers all that a server tells the owner of a socket. `on*` may be replaced to act on it. */
export class Recorder implements SocketHandlers {
  socket: Socket | undefined;
  readonly frames: SocketFrame[] = [];
  readonly closes: [code: number, reason: string][] = [];
  drains = 0;
  onOpen: (socket: Socket) => void = () => undefined;
  onMessage: (frame: SocketFrame, socket: Socket) => void = () => undefined;

  open(socket: Socket): void {
    this.socket = socket;
    this.onOpen(socket);
  }

  message(frame: SocketFrame): void {
    this.frames.push(frame);
    if (this.socket !== undefined) this.onMessage(frame, this.socket);
  }

  drain(): void {
    this.drains += 1;
  }

  close(code: number, reason: string): void {
    this.closes.push([code, reason]);
  }
}

/** A client that remembers what it received and how it ended. */
export class Client extends WebSocket {
  readonly texts: string[] = [];
  bytes = 0;
  ending: [code: number, reason: string] | undefined;

  constructor(address: string, options: ClientOptions) {
    super(address, options);
    this.on('message', (data: Buffer, isBinary) => {
      this.bytes += data.length;
      if (!isBinary) this.texts.push(data.toString());
    });
    this.on('error', () => undefined);
    this.on('close', (code, reason) => {
      this.ending = [code, reason.toString()];
    });
  }
}

/** Opens a WebSocket to the server; it is cut when `t` ends. */
export async function dial(t: Cleanup, server: HttpServer, path = '/', options: ClientOptions = {}): Promise<Client> {
  const client = new Client(`ws://127.0.0.1:${server.port}${path}`, options);
  t.after(() => client.terminate());
  await once(client, 'open');
  return client;
}
