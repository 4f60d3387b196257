/** A connection of Troupe's own server, on a clock of the test's: how long a client has, and whose a body is. */
import assert from 'node:assert/strict';
import { createServer, Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { BodyError, type ByteSink, type HttpHandler, type HttpPushReply } from '../../proto/ports/http.ts';
import { BODY_TIMEOUT_MS, EARLY_BODY_BYTES } from '../../transports/http/limits.ts';
import { OwnConnection } from '../../transports/http/own-connection.ts';
import { OwnPush, type ReplyOwner } from '../../transports/http/own-reply.ts';
import type { Timed } from '../../transports/wire/deadlines.ts';
import { StreamWire } from '../../transports/wire/wires.ts';
import { wire as connectTo, head } from '../support/http/client.ts';
import { until } from '../support/until.ts';

/** Time that passes when the test says so. */
class Clock {
  #now = 0;
  readonly #all = new Set<Timed>();

  now(): number {
    return this.#now;
  }

  add(timed: Timed): void {
    this.#all.add(timed);
  }

  remove(timed: Timed): void {
    this.#all.delete(timed);
  }

  pass(ms: number): void {
    this.#now += ms;
    for (const timed of this.#all) {
      if (timed.deadline > this.#now) continue;
      timed.deadline = Number.POSITIVE_INFINITY;
      timed.onDeadline();
    }
  }
}

/** A client of a server that answers with `onRequest`, and its clock. */
async function setting(t: TestContext, onRequest: HttpHandler, onFault: (error: unknown) => void = () => {}) {
  const clock = new Clock();
  const owner = {
    options: {
      ...{ host: '127.0.0.1', port: 0, onRequest, onFault },
      onUpgrade: () => ({ refuse: { status: 404, headers: [] } }),
    },
    ...{ deadlines: clock, isClosing: false, left: () => {} },
    socketOn: () => assert.fail('nothing becomes a WebSocket here'),
  };
  const connections: OwnConnection[] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    connections.push(new OwnConnection(new StreamWire(socket), owner, '127.0.0.1'));
  });
  t.after(async () => {
    const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
    for (const connection of connections) connection.abort();
    await closed;
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const client = await connectTo(t, { adapter: 'own', port: address.port, close: async () => {} });
  return {
    clock,
    client,
    heldBack: () => connections.some(({ wire }) => wire instanceof StreamWire && wire.socket.isPaused()),
  };
}

/** A promise, and what settles it. */
function latch(): { readonly opened: Promise<void>; open(): void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open: () => open() };
}

const NEARLY = BODY_TIMEOUT_MS - 1;

test('a client that was held back while nobody asked for its body has the whole time from when somebody does', async (t) => {
  const [asked, wanted] = [latch(), latch()];
  const { clock, client, heldBack } = await setting(t, async (request) => {
    asked.open();
    await wanted.opened;
    return { status: 200, headers: [], body: String((await request.body(4 * EARLY_BODY_BYTES)).length) };
  });
  const size = EARLY_BODY_BYTES + 200_000;
  client.send(head('POST / HTTP/1.1', 'Host: x', `Content-Length: ${size + 1}`)).send('x'.repeat(size));
  await asked.opened;
  await until(heldBack);
  clock.pass(NEARLY);
  wanted.open();
  await until(() => !heldBack());
  clock.pass(NEARLY);
  await client.send('x').sees(new RegExp(`^HTTP/1\\.1 200 [\\s\\S]*${size + 1}$`));
});

test('a client that is invited late has the whole time from then, and is not refused while it waits', async (t) => {
  const [asked, wanted] = [latch(), latch()];
  const { clock, client } = await setting(t, async (request) => {
    asked.open();
    await wanted.opened;
    return { status: 200, headers: [], body: String((await request.body(10)).length) };
  });
  client.send(head('POST / HTTP/1.1', 'Host: x', 'Content-Length: 2', 'Expect: 100-continue'));
  await asked.opened;
  clock.pass(2 * BODY_TIMEOUT_MS);
  clock.pass(NEARLY);
  wanted.open();
  await client.sees(/^HTTP\/1\.1 100 Continue\r\n\r\n$/);
  clock.pass(NEARLY);
  await client.send('xx').sees(/200 OK[\s\S]*2$/);
});

test('an invited client that sends nothing is refused when its time is over', async (t) => {
  const { clock, client } = await setting(t, async (request) => ({
    ...{ status: 200, headers: [] },
    body: String((await request.body(10)).length),
  }));
  client.send(head('POST / HTTP/1.1', 'Host: x', 'Content-Length: 2', 'Expect: 100-continue'));
  await client.sees(/100 Continue/);
  clock.pass(BODY_TIMEOUT_MS);
  await client.sees(/HTTP\/1\.1 408 /);
});

test('a body that is asked for after the answer is nobody’s: the next request of the connection is let be', async (t) => {
  const requests: Parameters<HttpHandler>[0][] = [];
  const second = latch();
  const { client } = await setting(t, async (request) => {
    requests.push(request);
    if (request.path !== '/last') return { status: 200, headers: [], body: 'first' };
    await second.opened;
    return { status: 200, headers: [], body: 'last' };
  });
  client.send(`${head('POST /whole HTTP/1.1', 'Host: x', 'Content-Length: 2')}xx`);
  await client.sees(/first$/);
  client.send(head('POST /dropped HTTP/1.1', 'Host: x', 'Content-Length: 2'));
  await until(() => requests.length === 2);
  await client.send('xx').sees(/first[\s\S]*first$/);
  client.send(head('POST /last HTTP/1.1', 'Host: x', 'Content-Length: 2', 'Expect: 100-continue'));
  await until(() => requests.length === 3);
  assert.equal((await requests[0]?.body(10))?.length, 2);
  await assert.rejects(async () => requests[1]?.body(10), aborted);
  second.open();
  await client.sees(/last$/);
  assert.doesNotMatch(client.text, /100 Continue/);
});

test('a body that is asked for while its answer streams does not write into it', async (t) => {
  let late: Promise<unknown> | undefined;
  let sink: ByteSink | undefined;
  const { client } = await setting(t, async (request) => ({
    ...{ status: 200, headers: [] },
    source: {
      open: (to) => {
        sink = to;
        to.write(Buffer.from('begun'));
        late = assert.rejects(request.body(10), aborted);
      },
      drain: () => {},
      closed: () => {},
    },
  }));
  client.send(head('POST / HTTP/1.1', 'Host: x', 'Content-Length: 2', 'Expect: 100-continue'));
  await client.sees(/begun/);
  await late;
  sink?.end();
  await client.sees(/0\r\n\r\n$/);
  assert.doesNotMatch(client.text, /100 Continue/);
});

test('whoever still reads a body when its request is answered is told', async (t) => {
  let reading: Promise<unknown> | undefined;
  const { client } = await setting(t, (request) => {
    reading = assert.rejects(request.body(10), aborted);
    return { status: 200, headers: [], body: 'answered' };
  });
  client.send(`${head('POST / HTTP/1.1', 'Host: x', 'Content-Length: 2')}x`);
  await until(() => reading !== undefined);
  await reading;
  await client.send('x').sees(/answered$/);
});

test('a push on a wire that was destroyed is told that there is no room', () => {
  const socket = new Socket();
  const wire = new StreamWire(socket);
  wire.destroy();
  const owner: ReplyOwner = {
    ...{ wire, minor: 1, connectionWord: '' },
    ...{ waits: () => {}, finished: () => {}, failed: () => {}, fault: () => {} },
  };
  let ends = 0;
  const closed = () => {
    ends += 1;
  };
  const source = { open: () => {}, drain: () => {}, closed };
  const reply: HttpPushReply = { status: 200, headers: [], source };
  const push = new OwnPush(reply, owner);
  push.begin();
  assert.deepEqual([push.write(Buffer.from('x')), push.write(Buffer.alloc(0))], [false, false]);
  push.abort();
  assert.equal(ends, 1);
});

function aborted(error: unknown): boolean {
  assert.ok(error instanceof BodyError);
  assert.equal(error.code, 'aborted');
  return true;
}
