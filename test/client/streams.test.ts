/** Streams over real sockets, to a server that cuts, refuses and closes them as it is told. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { WebSocket, WebSocketServer } from 'ws';
import { type StreamState, TroupeClient, webTransport } from '../../client/index.ts';
import { nodeTransport } from '../../client/node/index.ts';
import { retryPause } from '../../client/pause.ts';
import { Reconnecting } from '../../client/socket.ts';
import type { Cleanup } from '../support/temp.ts';
import { until } from '../support/until.ts';

/** What the server does with a connection. `path`: with its query. */
type Script = (socket: WebSocket, path: string) => void;

const stamp = (number: number) => `2026-01-31T12:00:00.${String(number).padStart(9, '0')}Z`;
const line = (number: number) => `${stamp(number)} line ${number}`;

/** A server that runs these scripts, one for each connection. A number refuses the upgrade; GETs answer `status`. */
async function server(t: Cleanup, scripts: readonly (Script | number)[], status = 'running') {
  const paths: string[] = [];
  const sockets = new WebSocketServer({ noServer: true });
  const http = createServer((_, response) => response.end(JSON.stringify({ status })));
  http.on('upgrade', (request, socket, head) => {
    const path = request.url ?? '';
    const script = scripts[paths.push(path) - 1];
    if (typeof script === 'number') {
      const body = JSON.stringify({
        error: `refused with ${script}`,
        code: script === 409 ? 'not_running' : 'unauthorized',
      });
      socket.end(`HTTP/1.1 ${script} No\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
      return;
    }
    sockets.handleUpgrade(request, socket, head, (opened) => script?.(opened, path));
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  const address = http.address();
  const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
  const client = new TroupeClient({ url, token: 'secret', transport: nodeTransport() });
  t.after(() => {
    client.close();
    for (const socket of sockets.clients) socket.terminate();
    http.closeAllConnections();
    http.close();
  });
  return { paths, url, client };
}

test('a log goes on after its last line: nothing is missing, nothing comes twice', async (t) => {
  const { client, paths } = await server(t, [
    (socket) => {
      for (const number of [1, 2, 3]) socket.send(line(number));
      socket.close(1012, 'service restarts');
    },
    503,
    (socket) => {
      for (const number of [3, 4]) socket.send(line(number));
      setImmediate(() => socket.terminate());
    },
    (socket) => {
      for (const number of [5, 6]) socket.send(line(number));
      socket.close(1000, 'container stopped');
    },
  ]);
  const lines: string[] = [];
  const states: StreamState['state'][] = [];
  const onState = ({ state }: StreamState) => states.push(state);
  const end = await client.follow.logs({ id: 'x', tail: 3, onLine: ({ text }) => lines.push(text), onState }).done;
  assert.deepEqual(
    lines,
    [1, 2, 3, 4, 5, 6].map((number) => `line ${number}`),
  );
  assert.deepEqual([end.how, end.reason, end.error], ['ended', 'container stopped', undefined]);
  const path = '/compute/containers/x/logs';
  const resumed = (number: number) => `${path}?since=${encodeURIComponent(stamp(number))}`;
  assert.deepEqual(paths, [`${path}?tail=3`, resumed(3), resumed(3), resumed(4)]);
  assert.deepEqual(states.slice(0, 4), ['connecting', 'open', 'waiting', 'connecting']);
  assert.equal(states.at(-1), 'closed');
});

test('what no pause mends ends a stream with its error', async (t) => {
  const limit = 'your limit is 50 open logs: close one, or the operator raises it by troupe users limits NAME';
  const { client, paths } = await server(t, [
    401,
    (socket) => socket.close(1008, limit),
    (socket) => socket.close(1008, 'token revoked'),
    (socket) => socket.close(4000, 'session taken over'),
    (socket) => socket.close(4404, 'no such container'),
  ]);
  const follow = () => client.follow.logs({ id: 'x', onLine() {} }).done;
  const ends = [await follow(), await follow(), await follow(), await follow(), await follow()];
  assert.deepEqual(
    ends.map(({ how, error }) => [how, error?.code, error?.message]),
    [
      ['refused', 'unauthorized', 'refused with 401'],
      ['refused', 'limit_reached', limit],
      ['refused', 'unauthorized', 'token revoked'],
      ['taken', 'taken', 'session taken over'],
      ['refused', 'not_found', 'no such container'],
    ],
  );
  assert.equal(paths.length, 5);
});

test('a log of a stopped container ends, and one that is about to run is waited for', async (t) => {
  const stopped = await server(t, [409], 'stopped');
  const { error } = await stopped.client.follow.logs({ id: 'x', onLine() {} }).done;
  assert.equal(error?.code, 'not_running');
  const pending = await server(t, [409, (socket) => socket.close(1000, 'container stopped')], 'initializing');
  assert.equal((await pending.client.follow.logs({ id: 'x', onLine() {} }).done).how, 'ended');
});

test('a terminal returns to its shell, with its size and with what was typed meanwhile', async (t) => {
  const got: string[] = [];
  const take = (socket: WebSocket) => socket.on('message', (data) => got.push(String(data)));
  const { client, paths } = await server(t, [
    (socket) => {
      take(socket);
      socket.on('message', (data) => String(data) === 'one' && socket.terminate());
    },
    (socket) => {
      take(socket);
      socket.send(Buffer.from('one, again'));
      socket.on('message', (data) => {
        if (String(data) !== 'bye') return;
        socket.send('{"type":"exit","code":3}');
        socket.close(1000, 'session ended');
      });
    },
  ]);
  let output = '';
  let returns = 0;
  const terminal = client.follow.terminal({
    id: 'x',
    size: { cols: 100, rows: 30 },
    onOutput: (bytes) => {
      output += Buffer.from(bytes).toString();
    },
    onReturn: () => returns++,
    onState: ({ state }) => state === 'waiting' && terminal.write('two'),
  });
  terminal.write('one');
  await until(() => output !== '', { what: 'the shell is back' });
  terminal.resize({ cols: 80, rows: 24 });
  terminal.write('bye');
  assert.equal(terminal.exitCode, undefined);
  assert.equal((await terminal.done).how, 'ended');
  assert.equal(terminal.exitCode, 3);
  const size = (cols: number, rows: number) => `{"type":"resize","cols":${cols},"rows":${rows}}`;
  assert.deepEqual(got, [size(100, 30), 'one', size(100, 30), 'two', size(80, 24), 'bye']);
  assert.equal(returns, 1);
  const path = `/compute/containers/x/terminal?session=${terminal.session}&exit=true`;
  assert.deepEqual(paths, [path, path]);
});

test('leaving a terminal keeps its shell, closing it hangs up', async (t) => {
  const codes: number[] = [];
  const note: Script = (socket) => socket.on('close', (code) => codes.push(code));
  const { client } = await server(t, [note, note]);
  for (const way of ['leave', 'close'] as const) {
    const terminal = client.follow.terminal({
      id: 'x',
      onOutput() {},
      onState: ({ state }) => state === 'open' && terminal[way](),
    });
    assert.equal((await terminal.done).how, 'closed');
    await until(() => codes.length === (way === 'leave' ? 1 : 2), { what: 'the server sees it' });
  }
  assert.deepEqual(codes, [4001, 1000]);
});

test('notifications go on after the last one', async (t) => {
  const send = (socket: WebSocket, ...ids: number[]) => {
    for (const id of ids) socket.send(JSON.stringify({ id, title: `n${id}` }));
  };
  const { client, paths } = await server(t, [
    (socket) => {
      send(socket, 7, 8);
      socket.close(1013, 'too slow');
    },
    (socket) => send(socket, 8, 9),
  ]);
  const ids: number[] = [];
  const following = client.follow.notifications({ since: 6, onNotification: ({ id }) => ids.push(id) });
  await until(() => ids.length === 3, { what: 'all have come' });
  following.close();
  assert.deepEqual(ids, [7, 8, 9]);
  assert.deepEqual(paths, ['/ws/notifications?since=6', '/ws/notifications?since=8']);
});

test('a browser sends its token in the query, and asks why a socket did not open', async (t) => {
  const { url, paths } = await server(t, [409], 'stopped');
  // A browser only says that the socket is closed.
  class BrowserSocket extends WebSocket {
    constructor(url: string) {
      super(url);
      this.on('error', () => {});
    }
  }
  const transport = webTransport(fetch, BrowserSocket as never);
  const client = new TroupeClient({ url, token: 'secret', transport });
  const { how, error } = await client.follow.logs({ id: 'x', onLine() {} }).done;
  assert.deepEqual([how, error?.code], ['refused', 'not_running']);
  assert.deepEqual(paths, ['/compute/containers/x/logs?token=secret']);
});

test('pauses grow from half a second to half a minute, and a part of each is random', () => {
  const bounds = { minMs: 500, maxMs: 30_000 };
  assert.deepEqual(
    [0, 1, 2, 6, 1000].map((failures) => retryPause(failures, bounds, 1)),
    [500, 1000, 2000, 30_000, 30_000],
  );
  assert.equal(retryPause(0, bounds, 0), 250);
});

test('a pause ends when somebody wakes the stream, and a closed stream stays closed', async () => {
  let connects = 0;
  const stream = new Reconnecting({ path: () => '/', bounds: { minMs: 1e9, maxMs: 1e9 } }, (_, listener) => {
    connects++;
    queueMicrotask(() => listener.closed(1006, ''));
    return { send() {}, close() {} };
  });
  const waits = () => new Promise((resolve) => setImmediate(resolve));
  await waits();
  assert.equal(connects, 1);
  stream.wake();
  await waits();
  assert.equal(connects, 2);
  stream.close();
  stream.wake();
  await waits();
  assert.equal(connects, 2);
  assert.equal((await stream.done).how, 'closed');
});
