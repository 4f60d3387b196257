/** The load: asks on every connection, again as soon as the answer is whole. */
import { connect } from 'node:net';

const CONNECTIONS = 64;
const REQUEST = Buffer.from(
  'GET /api/session?x=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: keep-alive\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n' +
    'Accept: application/json\r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate\r\nAuthorization: Bearer abcdefghijklmnopqrstuvwxyz0123456789\r\n\r\n',
);

/** Says how many answers came in how many seconds. */
export async function load(port: number, seconds: number): Promise<void> {
  let count = 0;
  let isOver = false;
  const sockets = Array.from({ length: CONNECTIONS }, () => {
    const buffer = Buffer.allocUnsafe(16_384);
    let missing = 0;
    const callback = (length: number) => {
      missing = (missing === 0 ? lengthOf(buffer.toString('latin1', 0, length)) : missing) - length;
      if (missing < 0) throw new Error('more came than was announced');
      if (missing > 0) return true;
      count++;
      if (!isOver) socket.write(REQUEST);
      return true;
    };
    const socket = connect({ host: '127.0.0.1', port, noDelay: true, onread: { buffer, callback } });
    socket.on('connect', () => socket.write(REQUEST));
    return socket;
  });
  const began = performance.now();
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  process.stdout.write(`${JSON.stringify({ count, took: (performance.now() - began) / 1000 })}\n`);
  isOver = true;
  for (const socket of sockets) socket.destroy();
}

/** How long an answer is, from its head, which a small answer has in its first piece. */
function lengthOf(start: string): number {
  const end = start.indexOf('\r\n\r\n');
  const body = /\r\ncontent-length: (\d+)\r\n/i.exec(start)?.[1];
  if (!start.startsWith('HTTP/1.1 200 ') || end < 0 || body === undefined) throw new Error(start);
  return end + 4 + Number(body);
}
