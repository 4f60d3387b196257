/** A TCP proxy whose connections can be broken. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export interface Cutter {
  readonly port: number;
  /** Bytes that went by so far, from and to those who connect. */
  readonly sent: number;
  readonly received: number;
  /** Resets the connections that stand now; new ones succeed. */
  cut(): void;
  /** From now on new connections are reset, too, until told otherwise. */
  refuse(whether: boolean): void;
  close(): Promise<void>;
}

/** Proxies to a port of 127.0.0.1. */
export async function startCutter(target: number): Promise<Cutter> {
  const sockets = new Set<Socket>();
  let refuses = false;
  let [sent, received] = [0, 0];
  const server = createServer((from) => {
    if (refuses) {
      from.on('error', () => undefined);
      from.resetAndDestroy();
      return;
    }
    const to = connect(target, '127.0.0.1');
    for (const socket of [from, to]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('close', () => {
        sockets.delete(socket);
        from.destroy();
        to.destroy();
      });
    }
    from.on('data', (data: Buffer) => {
      sent += data.length;
    });
    to.on('data', (data: Buffer) => {
      received += data.length;
    });
    from.pipe(to).pipe(from);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const cut = (): void => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    get sent() {
      return sent;
    },
    get received() {
      return received;
    },
    cut,
    refuse: (whether) => {
      refuses = whether;
    },
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      cut();
      await closed;
    },
  };
}
