/** The clients: bare sockets that speak just enough of RFC 6455 to count frames. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';

/** Sockets that are opened at once. */
const AT_ONCE = 200;

/** Where a notification says when it was published. */
const STAMP = Buffer.from('"title":"at ');
const STAMP_LENGTH = 16;

export interface ClientOptions {
  /** Where the sockets of the user with that index connect. */
  readonly path: (index: number) => Promise<string>;
  /** Gives the time of day, ms: the delay of each notification is measured then. */
  readonly now?: () => number;
}

/** Opens `count` sockets, `perUser` to a user, each at the port for its place among them, and says when as many frames have come as were asked for. */
export async function clients(
  portOf: (socket: number) => number,
  count: number,
  perUser: number,
  { path, now }: ClientOptions,
): Promise<void> {
  let frames = 0;
  let expected = 0;
  let delays: number[] = [];
  const check = () => {
    if (expected === 0 || frames < expected) return;
    delays.sort((a, b) => a - b);
    const at = (part: number) => delays[Math.floor(delays.length * part)];
    process.stdout.write(`${JSON.stringify({ got: frames, p50: at(0.5), p99: at(0.99) })}\n`);
    frames = 0;
    expected = 0;
    delays = [];
  };
  /** A stamp that two reads share is left out. */
  const measure = (bytes: Buffer) => {
    if (now === undefined) return;
    for (let at = bytes.indexOf(STAMP); at >= 0; at = bytes.indexOf(STAMP, at + STAMP_LENGTH)) {
      const from = at + STAMP.length;
      const stamp = Number(bytes.toString('latin1', from, from + STAMP_LENGTH));
      if (bytes.length >= from + STAMP_LENGTH) delays.push(now() - stamp);
    }
  };
  const sockets: Socket[] = [];
  const shared = Buffer.allocUnsafe(256 * 1024);
  for (let opened = 0; opened < count; opened += AT_ONCE) {
    const paths = await Promise.all(
      Array.from({ length: Math.min(AT_ONCE, count - opened) }, (_, index) =>
        path(Math.floor((opened + index) / perUser)),
      ),
    );
    await Promise.all(
      paths.map((path, index) => {
        const counter = new FrameCounter();
        let resolve = () => {};
        const promise = new Promise<void>((done) => {
          resolve = done;
        });
        let isOpen = false;
        let head = '';
        const fail = (what: string) => {
          process.stderr.write(`a client failed: ${what}\n`);
          process.exit(1);
        };
        const socket = connect({
          ...{ host: '127.0.0.1', port: portOf(opened + index), noDelay: true },
          onread: {
            buffer: shared,
            callback: (length, buffer) => {
              if (isOpen) {
                frames += counter.take(buffer, 0, length);
                if (counter.wasPinged()) socket.write(PONG);
                measure(Buffer.from(buffer.buffer, buffer.byteOffset, length));
                check();
                return true;
              }
              // The answer may come in pieces.
              const before = head.length;
              head += Buffer.from(buffer.buffer, buffer.byteOffset, length).toString('latin1');
              const end = head.indexOf('\r\n\r\n');
              if (end < 0) return true;
              if (!head.startsWith('HTTP/1.1 101 ')) fail(head);
              isOpen = true;
              frames += counter.take(buffer, end + 4 - before, length);
              resolve();
              return true;
            },
          },
        });
        socket.on('error', ({ message }) => fail(message));
        socket.on('end', () => fail('the server ended it'));
        socket.write(
          `GET ${path} HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`,
        );
        sockets.push(socket);
        return promise;
      }),
    );
  }
  process.stdout.write(`${JSON.stringify({ connected: sockets.length })}\n`);
  const lines = createInterface({ input: process.stdin });
  lines.on('line', (line) => {
    expected = Number(line.split(' ')[1]);
    check();
  });
  await once(lines, 'close');
  for (const socket of sockets) socket.removeAllListeners('end').destroy();
}

/** Opcodes of RFC 6455, section 5.2. */
const TEXT = 1;
const PING = 9;
/** Masked with zeros, empty. */
const PONG = Buffer.of(0x8a, 0x80, 0, 0, 0, 0);

/** Counts whole texts of a server: not masked, below 64 KiB. */
export class FrameCounter {
  #missing = 0;
  #pinged = false;
  #head: number[] = [];

  take(bytes: Uint8Array, from: number, to: number): number {
    let count = 0;
    for (let at = from; at < to; ) {
      if (this.#missing > 0) {
        const step = Math.min(this.#missing, to - at);
        this.#missing -= step;
        at += step;
        continue;
      }
      this.#head.push(bytes[at++] ?? 0);
      const [first = 0, second = 0] = this.#head;
      if (this.#head.length === 2 && second < 126) this.#missing = second;
      else if (this.#head.length === 4) this.#missing = ((this.#head[2] ?? 0) << 8) | (this.#head[3] ?? 0);
      else continue;
      this.#head = [];
      if ((first & 0x0f) === TEXT) count += 1;
      else if ((first & 0x0f) === PING) this.#pinged = true;
    }
    return count;
  }

  /** Whether a ping came since it was asked last. */
  wasPinged(): boolean {
    const was = this.#pinged;
    this.#pinged = false;
    return was;
  }
}
