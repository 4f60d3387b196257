/**
 * A pooler in transaction mode, as strict as they come: each transaction gets the connection to the server that was free
 * for the longest time, so nothing that a connection was told reaches the next one. As PgBouncer does, it refuses settings
 * in a startup message, and notifications for a client without a transaction go nowhere.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import type { Cleanup } from '../temp.ts';
import type { TestConnection } from './database.ts';

const HARMLESS = new Set(['client_encoding', 'application_name']);

interface Server {
  readonly socket: Socket;
  client: Socket | undefined;
}

export interface TransactionPooler {
  /** The URL of a database through it. */
  urlOf(connection: Pick<TestConnection, 'user' | 'database'>): string;
  /** Transactions, and statements outside of one, that went through it. */
  readonly transactions: number;
}

/** Starts it in front of the server of `connection`. It ends with `t`. */
export async function startTransactionPooler(
  t: Cleanup,
  { socketDir, port }: TestConnection,
): Promise<TransactionPooler> {
  const sockets = new Set<Socket>();
  /** By user and database. */
  const pools = new Map<string, Server[]>();
  let transactions = 0;
  const keep = (socket: Socket): Socket => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy()).on('close', () => sockets.delete(socket));
    return socket;
  };

  /** Logs in to the server as a client asks for; the answers go to `client`. */
  function openServer(startup: Buffer, idle: Server[], client: Socket | undefined): void {
    const server: Server = { socket: keep(connect(join(socketDir, `.s.PGSQL.${port}`))), client };
    server.socket.write(startup);
    server.socket.on('close', () => server.client?.destroy());
    onMessages(server.socket, 0, (message) => {
      server.client?.write(message);
      // ReadyForQuery outside of a transaction.
      if (message[0] !== 0x5a || message[5] !== 0x49) return;
      server.client = undefined;
      idle.push(server);
    });
  }

  const listener = createServer((client) => {
    keep(client);
    let attached: Server | undefined;
    let idle: Server[] | undefined;
    onMessages(client, 1, (message) => {
      if (idle === undefined) {
        const { user = '', database = '', ...more } = parametersOf(message);
        idle = pools.get(`${user} ${database}`) ?? [];
        pools.set(`${user} ${database}`, idle);
        const refused = Object.keys(more).find((name) => !HARMLESS.has(name));
        if (refused !== undefined) {
          client.end(errorMessage(`unsupported startup parameter: ${refused}`));
          return;
        }
        // One more than there are clients, so that no client keeps the same one.
        openServer(message, idle, undefined);
        openServer(message, idle, client);
        return;
      }
      if (message[0] === 0x58) {
        client.end();
        return;
      }
      if (attached?.client !== client) {
        attached = idle.shift();
        if (attached === undefined) throw new Error('a client of the pooler sent before it was ready');
        attached.client = client;
        transactions += 1;
      }
      attached.socket.write(message);
    });
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  t.after(() => {
    listener.close();
    for (const socket of sockets) socket.destroy();
  });
  const { port: own } = listener.address() as AddressInfo;
  return {
    urlOf: ({ user, database }) => `postgresql://${user}@127.0.0.1:${own}/${database}`,
    get transactions() {
      return transactions;
    },
  };
}

/** Calls `take` with each whole message; the first `untyped` ones have no type in front of their length. */
function onMessages(socket: Socket, untyped: number, take: (message: Buffer) => void): void {
  let rest: Buffer = Buffer.alloc(0);
  let bare = untyped;
  socket.on('data', (data) => {
    rest = Buffer.concat([rest, data]);
    for (;;) {
      const from = bare > 0 ? 0 : 1;
      if (rest.length < from + 4) return;
      const length = from + rest.readInt32BE(from);
      if (rest.length < length) return;
      const message = rest.subarray(0, length);
      rest = rest.subarray(length);
      if (bare > 0) bare -= 1;
      take(message);
    }
  });
}

/** What a startup message asks for. */
function parametersOf(startup: Buffer): Readonly<Record<string, string>> {
  const words = startup.subarray(8).toString().split('\0');
  const pairs = words.flatMap((name, at) => (at % 2 === 0 && name !== '' ? [[name, words[at + 1] ?? '']] : []));
  return Object.fromEntries(pairs);
}

function errorMessage(text: string): Buffer {
  const fields = Buffer.from(`SFATAL\0C08P01\0M${text}\0\0`);
  const head = Buffer.alloc(5);
  head.write('E');
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}
