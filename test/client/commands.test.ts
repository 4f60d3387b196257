/** Commands that are followed over real sockets, to a server that cuts and answers them as it is told. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { type WebSocket, WebSocketServer } from 'ws';
import { TroupeClient, TroupeError } from '../../client/index.ts';
import { nodeTransport } from '../../client/node/index.ts';
import type { Cleanup } from '../support/temp.ts';
import { until } from '../support/until.ts';

/** What the server does with a connection. */
type Script = (socket: WebSocket) => void;

/**
 * A server that runs these scripts, one for each connection, and notes what it is told. `query`: what its document has
 * of the query of a command; without it there is no document.
 */
async function server(t: Cleanup, scripts: readonly Script[], query?: readonly string[]) {
  const queries: URLSearchParams[] = [];
  /** By connection: text as it is, input as its bytes. */
  const told: (string | Buffer)[][] = [];
  const http = createServer((_, response) => {
    if (query === undefined) return response.writeHead(404).end('{"error":"not found","code":"not_found"}');
    const parameters = query.map((name) => ({ name, in: 'query' }));
    return response.end(JSON.stringify({ paths: { '/compute/containers/{id}/exec': { get: { parameters } } } }));
  });
  const sockets = new WebSocketServer({ server: http });
  sockets.on('connection', (socket, request) => {
    queries.push(new URL(request.url ?? '', 'http://x').searchParams);
    const mine: (string | Buffer)[] = [];
    const place = told.push(mine) - 1;
    socket.on('message', (data, isBinary) => {
      const bytes = Buffer.isBuffer(data) ? data : Buffer.alloc(0);
      mine.push(isBinary ? bytes : bytes.toString());
    });
    socket.on('close', (code) => mine.push(`closed with ${code}`));
    scripts[place]?.(socket);
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  const address = http.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const client = new TroupeClient({ url: `http://127.0.0.1:${port}`, token: 'secret', transport: nodeTransport() });
  t.after(() => {
    client.close();
    for (const socket of sockets.clients) socket.terminate();
    sockets.close();
    http.close();
    http.closeAllConnections();
  });
  const inputOf = (place: number) => Buffer.concat((told[place] ?? []).filter((each) => Buffer.isBuffer(each)));
  return { client, queries, told, inputOf };
}

const begun = (socket: WebSocket, cursor = 0, received = 0, gap = 0) => {
  const input = { received, written: received };
  socket.send(JSON.stringify({ type: 'session', session: 's', resumable: true, cursor, gap, input }));
};
const prints = (socket: WebSocket, text: string, stream = 1) =>
  socket.send(Buffer.concat([Buffer.of(stream), Buffer.from(text)]));
const exits = (socket: WebSocket, code: number) => socket.send(JSON.stringify({ type: 'exit', code }));
const tookInput = (socket: WebSocket, bytes: number) =>
  socket.send(JSON.stringify({ type: 'input', received: bytes, written: bytes }));

test('a command is joined again where its output was, and forgotten once its exit code is known', async (t) => {
  const { client, queries, told } = await server(t, [
    (socket) => {
      begun(socket);
      prints(socket, 'one ');
      prints(socket, 'two ', 2);
      setImmediate(() => socket.terminate());
    },
    (socket) => socket.close(1012, 'connection to the container lost'),
    (socket) => {
      begun(socket, 8);
      prints(socket, 'three');
      exits(socket, 3);
    },
  ]);
  const shown: [string, number][] = [];
  let opens = 0;
  const code = await client.follow.command({
    id: 'x',
    command: ['a', 'b c'],
    onOpen: () => opens++,
    onOutput: (bytes, stream) => shown.push([Buffer.from(bytes).toString(), stream]),
  }).done;
  assert.equal(code, 3);
  assert.deepEqual(shown, [
    ['one ', 1],
    ['two ', 2],
    ['three', 1],
  ]);
  assert.equal(opens, 1);
  assert.deepEqual(
    queries.map((query) => [query.getAll('command'), query.get('since')]),
    [
      [['a', 'b c'], null],
      [[], '8'],
      [[], '8'],
    ],
  );
  assert.equal(new Set(queries.map((query) => query.get('session'))).size, 1);
  assert.match(queries[0]?.get('session') ?? '', /^[0-9a-f-]{36}$/);
  await until(() => told[2]?.includes('closed with 1000'));
});

test('a start that may have been heard is asked for under the same name', async (t) => {
  const { client, queries } = await server(t, [
    (socket) => socket.terminate(),
    (socket) => {
      begun(socket);
      exits(socket, 0);
    },
  ]);
  assert.equal(await client.follow.command({ id: 'x', command: ['a'], onOutput() {} }).done, 0);
  assert.equal(String(queries[0]), String(queries[1]));
});

test('input is sent once: from where the platform has it, with its end, and no more than may be on its way', async (t) => {
  const sent = Buffer.alloc(
    700_000,
    Uint8Array.from({ length: 251 }, (_, at) => at),
  );
  const { client, told, inputOf } = await server(t, [
    (socket) => {
      begun(socket);
      let bytes = 0;
      socket.on('message', (data) => {
        bytes += Buffer.isBuffer(data) ? data.length : 0;
        // No more comes: so much may be on its way.
        if (bytes === 262_144) {
          tookInput(socket, 100_000);
          setImmediate(() => socket.terminate());
        }
      });
    },
    (socket) => {
      begun(socket, 0, 150_000);
      let bytes = 150_000;
      socket.on('message', (data, isBinary) => {
        if (!isBinary) return exits(socket, 0);
        bytes += Buffer.isBuffer(data) ? data.length : 0;
        tookInput(socket, bytes);
      });
    },
  ]);
  const command = client.follow.command({ id: 'x', command: ['a'], onOutput() {} });
  command.write(sent.subarray(0, 500_000));
  command.write(sent.subarray(500_000));
  command.end();
  assert.equal(command.waitingBytes, 700_000);
  assert.equal(await command.done, 0);
  assert.equal(command.waitingBytes, 0);
  assert.ok(inputOf(0).equals(sent.subarray(0, inputOf(0).length)));
  assert.ok(inputOf(1).equals(sent.subarray(150_000)));
  assert.deepEqual(told[1]?.filter((each) => each === '{"type":"eof"}').length, 1);
});

test('of input that a command did not take, nothing waits once it has ended', async (t) => {
  const { client } = await server(t, [
    (socket) => {
      begun(socket);
      exits(socket, 0);
    },
  ]);
  const command = client.follow.command({ id: 'x', command: ['true'], onOutput() {} });
  command.write(new Uint8Array(1_000_000));
  assert.equal(await command.done, 0);
  command.write(new Uint8Array(1_000_000));
  assert.equal(command.waitingBytes, 0);
});

test('output is confirmed on the way, and what is lost is told', async (t) => {
  const { client, told } = await server(t, [
    (socket) => {
      begun(socket);
      for (let n = 0; n < 5; n++) prints(socket, 'x'.repeat(32_768));
      socket.on('message', () => socket.terminate());
    },
    (socket) => {
      begun(socket, 200_000, 0, 36_160);
      exits(socket, 1);
    },
  ]);
  const gaps: number[] = [];
  const code = await client.follow.command({
    id: 'x',
    command: ['a'],
    onOutput() {},
    onGap: (bytes) => gaps.push(bytes),
  }).done;
  assert.deepEqual([code, gaps], [1, [36_160]]);
  assert.equal(told[0]?.[0], '{"type":"ack","cursor":131072}');
});

test('a terminal keeps its size, and the end of its input is a byte that counts', async (t) => {
  const { client, queries, told, inputOf } = await server(t, [
    (socket) => {
      begun(socket);
      socket.on('message', (_, isBinary) => isBinary && socket.terminate());
    },
    (socket) => {
      begun(socket, 0, 1);
      socket.on('message', () => exits(socket, 0));
    },
  ]);
  const command = client.follow.command({
    id: 'x',
    command: ['a'],
    size: { cols: 100, rows: 40 },
    onOutput() {},
    onOpen() {
      command.resize({ cols: 90, rows: 30 });
      command.end();
    },
  });
  assert.equal(await command.done, 0);
  assert.equal(queries[0]?.get('cols'), '100');
  assert.deepEqual([...inputOf(0)], [4]);
  assert.deepEqual([told[1]?.[0], inputOf(1).length], ['{"type":"resize","cols":90,"rows":30}', 0]);
});

test('a command that cannot be kept is run all the same, once, and has no result when its line is lost', async (t) => {
  const plain: Script = (socket) => {
    socket.send(JSON.stringify({ type: 'session', session: 's', resumable: false, reason: 'it has no perl' }));
    socket.on('message', (_, isBinary) => isBinary && socket.terminate());
  };
  const { client, told, queries } = await server(t, [plain]);
  const command = client.follow.command({ id: 'x', command: ['a'], onOutput() {} });
  command.write(Buffer.from('typed'));
  await assert.rejects(command.done, (error) => error instanceof TroupeError && error.code === 'unreachable');
  assert.deepEqual(told[0]?.map(String), ['{"type":"start"}', 'typed', 'closed with 1006']);
  assert.equal(queries.length, 1);
});

test('a command that is not kept any more, or was never begun, has no result', async (t) => {
  const { client } = await server(t, [
    (socket) => {
      begun(socket);
      setImmediate(() => socket.terminate());
    },
    (socket) => socket.close(4404, 'there is no such command any more'),
  ]);
  const unreachable = (words: RegExp) => (error: unknown) => {
    assert.ok(error instanceof TroupeError);
    assert.equal(error.code, 'unreachable');
    assert.match(error.message, words);
    return true;
  };
  await assert.rejects(
    client.follow.command({ id: 'x', command: ['a'], onOutput() {} }).done,
    unreachable(/has no result: there is no such command any more/),
  );
  const nobody = new TroupeClient({ url: 'http://127.0.0.1:1', transport: nodeTransport() });
  await assert.rejects(
    nobody.follow.command({ id: 'x', command: ['a'], onOutput() {} }).done,
    unreachable(/no result/),
  );
});

test('a platform that knows no sessions runs it as it always did', async (t) => {
  const { client } = await server(t, [
    (socket) => {
      prints(socket, 'out');
      exits(socket, 5);
      socket.close(1000, 'command ended');
    },
  ]);
  let out = '';
  const onOutput = (bytes: Uint8Array) => {
    out += Buffer.from(bytes).toString();
  };
  assert.equal(await client.follow.command({ id: 'x', command: ['a'], onOutput }).done, 5);
  assert.equal(out, 'out');
});

test('a platform that knows no sessions gets input that its command waits for before it says anything', async (t) => {
  const answers: Script = (socket) =>
    socket.on('message', (data, isBinary) => {
      if (isBinary) return;
      assert.equal(String(data), '{"type":"eof"}');
      prints(socket, 'read all');
      exits(socket, 0);
      socket.close(1000, 'command ended');
    });
  for (const query of [undefined, ['command', 'tty']]) {
    const { client, inputOf } = await server(t, [answers], query);
    let out = '';
    const command = client.follow.command({
      id: 'x',
      command: ['cat'],
      onOpen() {
        command.write(Buffer.alloc(300_000, 'x'));
        command.end();
      },
      onOutput: (bytes) => {
        out += Buffer.from(bytes).toString();
      },
    });
    assert.equal(await command.done, 0);
    assert.deepEqual([out, inputOf(0).length], ['read all', 300_000]);
  }
});

test('a platform that knows sessions gets no input before it says that the command is there, however long that takes', async (t) => {
  let asked = () => {};
  const isAsked = new Promise<void>((resolve) => {
    asked = resolve;
  });
  const slow: Script = (socket) => {
    void isAsked.then(() => {
      begun(socket);
      socket.on('message', (_, isBinary) => isBinary && exits(socket, 0));
    });
  };
  const { client, told } = await server(t, [slow], ['command', 'session']);
  const call = t.mock.method(client, 'call', client.call.bind(client));
  const command = client.follow.command({ id: 'x', command: ['cat'], onOutput() {} });
  command.write(Buffer.from('typed'));
  await until(() => call.mock.callCount() > 0, { what: 'the platform is asked what it knows' });
  await call.mock.calls[0]?.result;
  assert.deepEqual(told[0], []);
  asked();
  assert.equal(await command.done, 0);
  assert.equal(String(told[0]?.[0]), 'typed');
});
