/** Sends bytes and says no more: what comes back until the server ends the connection. */
import { connect } from 'node:net';

/** Sends `bytes` (latin1) to a port of this machine, then FIN. Resolves with all that came (latin1) once the connection is over. */
export function exchange(port: number, bytes: string, host = '127.0.0.1'): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host, allowHalfOpen: true });
    let text = '';
    socket.setTimeout(10_000, () => {
      socket.destroy();
      reject(new Error(`no end of the connection after ${JSON.stringify(bytes.slice(0, 200))}`));
    });
    // Whoever refuses a long request may end before all of it was sent.
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
    });
    socket.on('end', () => socket.destroy());
    socket.on('close', () => resolve(text));
    socket.end(Buffer.from(bytes, 'latin1'));
  });
}
