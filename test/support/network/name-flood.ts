/** Clients that say hello to names nobody mapped, as scanners do: bytes of real hellos with other names in them. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { connect as connectTls } from 'node:tls';

/** What became of them. */
export interface FloodReport {
  readonly count: number;
  /** Refused with the alert `unrecognized_name`. */
  readonly refused: number;
  /** Whatever else came, and how often. */
  readonly others: Readonly<Record<string, number>>;
  readonly tookMs: number;
}

const LABEL = 'x'.repeat(24);

/** Says `count` hellos to `port`, `atOnce` at a time: below each of `parents` in turn, every third as an authority's challenge. */
export async function nameFlood(
  port: number,
  options: {
    readonly count: number;
    readonly atOnce: number;
    readonly parents: readonly string[];
    readonly onProgress?: (line: string) => void;
  },
): Promise<FloodReport> {
  const { count, atOnce, parents } = options;
  const hellos = await Promise.all(
    parents.flatMap((parent) =>
      [['http/1.1'], ['h2', 'http/1.1'], ['acme-tls/1']].map((protocols) => helloOf(`${LABEL}.${parent}`, protocols)),
    ),
  );
  const others: Record<string, number> = {};
  let [said, refused] = [0, 0];
  const began = performance.now();
  const client = async () => {
    while (said < count) {
      const hello = Buffer.from(hellos[said % hellos.length] ?? '');
      if (++said % 10_000 === 0) options.onProgress?.(`${said} strangers, ${refused} refused`);
      hello.write(randomBytes(LABEL.length / 2).toString('hex'), hello.indexOf(LABEL), 'latin1');
      const answer = await exchange(port, hello);
      if (answer === 'alert 112') refused++;
      else others[answer] = (others[answer] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, client));
  return { count: said, refused, others, tookMs: Math.round(performance.now() - began) };
}

/** Sends a hello; `alert <number>`, or what else came. */
function exchange(port: number, hello: Buffer): Promise<string> {
  return new Promise((resolve) => {
    let seen = Buffer.alloc(0);
    const socket = connect({ port, host: '127.0.0.1' }, () => socket.write(hello));
    socket.setTimeout(60_000, () => socket.destroy(new Error('no answer')));
    let problem = '';
    socket.on('error', (error) => {
      problem = error.message;
    });
    socket.on('data', (chunk: Buffer) => {
      seen = Buffer.concat([seen, chunk]).subarray(0, 64);
    });
    socket.on('end', () => socket.end());
    socket.on('close', () => {
      if (seen[0] === 0x15 && seen.length >= 7) resolve(`alert ${seen[6]}`);
      else resolve(seen.length > 0 ? `a record of type ${seen[0]}` : problem || 'nothing');
    });
  });
}

/** The first bytes of a real client that wants `name`. */
async function helloOf(name: string, protocols: readonly string[]): Promise<Buffer> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const client = connectTls({ port, host: '127.0.0.1', servername: name, ALPNProtocols: [...protocols] });
  client.on('error', () => {});
  const [socket] = await once(server, 'connection');
  const [hello] = await once(socket, 'data');
  socket.destroy();
  client.destroy();
  server.close();
  await once(server, 'close');
  return hello;
}
