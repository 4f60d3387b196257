/** The clients: bare sockets that speak just enough of RFC 6455 to count frames. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';

/** Sockets that are opened at once. */
const AT_ONCE = 200;

/** Opens `count` sockets, `perUser` to a user, and says when as many frames have come as were asked for. */
export async function clients(port: number, count: number, perUser: number): Promise<void> {
  let frames = 0;
  let expected = 0;
  const check = () => {
    if (expected === 0 || frames < expected) return;
    process.stdout.write(`${JSON.stringify({ got: frames })}\n`);
    frames = 0;
    expected = 0;
  };
  const sockets: Socket[] = [];
  const shared = Buffer.allocUnsafe(256 * 1024);
  for (let opened = 0; opened < count; opened += AT_ONCE) {
    await Promise.all(
      Array.from({ length: Math.min(AT_ONCE, count - opened) }, (_, index) => {
        const counter = new FrameCounter();
        let resolve = () => {};
        const promise = new Promise<void>((done) => {
          resolve = done;
        });
        let isOpen = false;
        const socket = connect({
          ...{ host: '127.0.0.1', port, noDelay: true },
          onread: {
            buffer: shared,
            callback: (length, buffer) => {
              if (isOpen) {
                frames += counter.take(buffer, 0, length);
                check();
                return true;
              }
              const end = Buffer.from(buffer.buffer, buffer.byteOffset, length).indexOf('\r\n\r\n');
              isOpen = true;
              frames += counter.take(buffer, end + 4, length);
              resolve();
              return true;
            },
          },
        });
        socket.on('error', (error) => {
          process.stderr.write(`a client failed: ${error.message}\n`);
          process.exit(1);
        });
        socket.write(
          `GET /ws/${Math.floor((opened + index) / perUser)} HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`,
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
  for (const socket of sockets) socket.destroy();
}

/** Counts whole frames of a server: not masked, below 64 KiB. A ping counts as none. */
export class FrameCounter {
  #missing = 0;
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
      if ((first & 0x0f) === 1) count += 1;
    }
    return count;
  }
}
