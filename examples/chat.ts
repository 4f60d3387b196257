import { on, once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import {
  dispatch,
  type Entities,
  type EntityKind,
  entities,
  type Log,
  type Ref,
  spawnStateless,
  start,
  stop,
  stopped,
} from 'troupe/actors';
import { Cluster, type Codec, field, jsonCodec, type LeaseStore, type NodeBus } from 'troupe/actors/cluster';
import { MemoryBus, MemoryLeases } from 'troupe/actors/testing';
import { WebSocket, WebSocketServer } from 'ws';

type Line = { readonly from: string; readonly text: string };

type RoomMessage =
  | { readonly type: 'join'; readonly name: string; readonly member: Ref<Line> }
  | { readonly type: 'left'; readonly member: Ref<Line> }
  | { readonly type: 'say'; readonly line: Line };

/** A room that moved to another node is empty there: its members join again within this time. */
const REJOIN_MS = 200;

/** A room: one actor in the cluster, however many nodes its members are connected to. */
const room: EntityKind<RoomMessage, Set<Ref<Line>>> = {
  kind: 'room',
  sleepAfterMs: 60_000,
  activate: () => new Set(),
  handle(members, message, ctx) {
    const tell = (line: Line) => {
      for (const member of members) dispatch(member, line);
    };
    if (message.type === 'say') tell(message.line);
    else if (message.type === 'left') members.delete(message.member);
    else {
      const { member, name } = message;
      if (members.has(member)) return members;
      members.add(member);
      // Also sent when the member's node is lost.
      ctx.watch(member, () => ({ type: 'left', member }));
      tell({ from: name, text: 'is here' });
    }
    ctx.keepAwake(members.size > 0);
    return members;
  },
};

const lineCodec: Codec<Line> = jsonCodec((value) => {
  const [from, text] = [field(value, 'from'), field(value, 'text')];
  if (typeof from !== 'string' || typeof text !== 'string') throw new TypeError('this is no line');
  return { from, text };
});

/** How a message for a room crosses to another node. Refs cross, too. A room tells itself who left: this stays. */
const roomCodec: Codec<RoomMessage> = {
  encode(message, refs) {
    if (message.type === 'say') return { type: 'say', line: message.line };
    if (message.type === 'left') throw new TypeError('only the room says who left');
    return { type: 'join', name: message.name, member: refs.out(message.member, lineCodec) };
  },
  decode(wire, refs) {
    if (field(wire, 'type') === 'say') return { type: 'say', line: lineCodec.decode(field(wire, 'line'), refs) };
    const [name, member] = [field(wire, 'name'), refs.in(field(wire, 'member'), lineCodec)];
    if (typeof name !== 'string') throw new TypeError('this is no message for a room');
    return { type: 'join', name, member };
  },
};

const log: Log = { debug() {}, info() {}, warn: console.warn, error: console.error, child: () => log };

/** A node: a server for WebSockets, and its share of the rooms. */
async function openNode(id: string, store: LeaseStore, bus: NodeBus) {
  const system = start({ name: id, log });
  const self = { id, roles: ['chat'], version: '1', address: id };
  const cluster = new Cluster({ parent: system, self, store, bus, log, timings: { beatMs: 100, lookMs: 10 } });
  const kind = { kind: room.kind, service: 'chat', codec: roomCodec };
  const rooms: Entities<RoomMessage> = cluster.place(kind, entities(system, room));
  await cluster.join();

  const http = createServer().listen(0, '127.0.0.1');
  await once(http, 'listening');
  const sockets = new WebSocketServer({ server: http });
  sockets.on('connection', (socket, request) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://localhost');
    const name = searchParams.get('name') ?? 'somebody';
    // The connection is an actor: it is what the room knows, watches and tells.
    const member = spawnStateless(system, (message: Line | 'join', ctx) => {
      if (message === 'join') rooms.tell(pathname, { type: 'join', name, member: ctx.self });
      else socket.send(`${message.from}: ${message.text}`);
      if (message === 'join') ctx.after(REJOIN_MS, 'join');
    });
    dispatch(member, 'join');
    socket.on('message', (text) => rooms.tell(pathname, { type: 'say', line: { from: name, text: String(text) } }));
    socket.on('close', () => stop(member));
  });

  return {
    port: portOf(http),
    /** The rooms that are awake here. */
    rooms: () => rooms.ids(),
    /** How many of the 256 shards are owned here: the rooms are divided by them. */
    shards: () => cluster.node.holding,
    async close() {
      for (const socket of sockets.clients) socket.terminate();
      http.close();
      await cluster.drain(); // The other nodes take over the rooms.
      await cluster.leave();
      stop(system);
      await stopped(system);
    },
  };
}

function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no port');
  return address.port;
}

/** A client: sends lines, and waits for those it should get. */
async function connect(port: number, name: string) {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/lobby?name=${name}`);
  const lines = on(socket, 'message');
  await once(socket, 'open');
  return {
    say: (text: string) => socket.send(text),
    async next(): Promise<string> {
      const { value } = await lines.next();
      return String(value[0]);
    },
    close: () => socket.close(),
  };
}

// In one process for the example. Processes of their own need a bus between them, and a store of leases that they share.
const [store, bus] = [new MemoryLeases(), new MemoryBus()];
const one = await openNode('one', store, bus);
const two = await openNode('two', store, bus);
while (two.shards() === 0) await pause(20);

const ann = await connect(one.port, 'ann');
console.log('ann reads', await ann.next());
const bob = await connect(two.port, 'bob');
console.log('bob reads', await bob.next());
console.log('ann reads', await ann.next());
bob.say('hello');
console.log('ann reads', await ann.next(), '| bob reads', await bob.next());

const homes = [one, two].filter((node) => node.rooms().length === 1);
console.log(`the lobby is awake on ${homes.length} node of 2`);

// The node with the room leaves, and with it one of the two. The other one stays connected and joins the room's new home.
const [leaves, stays, reader] = homes[0] === one ? [one, two, bob] : [two, one, ann];
await leaves.close();
console.log('who stays reads', (await reader.next()).replace(/ann|bob/, 'NAME'));
reader.say('still here');
console.log('who stays reads', (await reader.next()).replace(/ann|bob/, 'NAME'));
await stays.close();
