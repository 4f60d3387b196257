/** An actor for each client with HTTP connections: one for all of them, since there are many and it is told nothing. */
import type { ClientConnections, EndableConnection } from '../../proto/gateway/gateway-decider.ts';
import { ActorError, type AnyRef, type SpawnOptions, spawn, stop } from '../../supervision/index.ts';

/** A client. It is also its actor's options, and its state: most of what an object would cost only says so. */
class GatewayClient implements SpawnOptions<GatewayClient, never> {
  readonly address: string;
  readonly clients: Map<string, GatewayClient>;
  actor: AnyRef | undefined = undefined;
  /** One by itself: a set weighs more than all the rest, and many clients have no other. */
  connections: EndableConnection | Set<EndableConnection>;

  constructor(address: string, clients: Map<string, GatewayClient>, first: EndableConnection) {
    this.address = address;
    this.clients = clients;
    this.connections = first;
  }

  get kind(): string {
    return 'gateway/client';
  }

  get initialState(): this {
    return this;
  }

  /** Called without `this`, as options are. */
  afterStop(client: GatewayClient): void {
    const { address, clients, connections } = client;
    if (clients.get(address) === client) clients.delete(address);
    for (const connection of connections instanceof Set ? connections : [connections]) connection.drain();
  }
}

const asItIs = (state: GatewayClient) => state;
/** Of a client that has left: never changed. */
const NONE = new Set<EndableConnection>();

/** What they are below; nobody has an actor before that has started. */
export class SupervisedClients implements ClientConnections {
  readonly #parent: () => AnyRef | undefined;
  readonly #clients = new Map<string, GatewayClient>();

  constructor(parent: () => AnyRef | undefined) {
    this.#parent = parent;
  }

  add(address: string, connection: EndableConnection): void {
    const known = this.#clients.get(address);
    if (known === undefined) this.#begin(address, connection);
    else if (known.connections instanceof Set) known.connections.add(connection);
    else known.connections = new Set([known.connections, connection]);
  }

  remove(address: string, connection: EndableConnection): void {
    const client = this.#clients.get(address);
    if (client === undefined) return;
    const { connections, actor } = client;
    if (connections instanceof Set) {
      connections.delete(connection);
      if (connections.size > 0) return;
    } else if (connections !== connection) return;
    this.#clients.delete(address);
    client.connections = NONE;
    if (actor !== undefined) stop(actor);
  }

  #begin(address: string, connection: EndableConnection): void {
    const parent = this.#parent();
    if (parent === undefined) return;
    const client = new GatewayClient(address, this.#clients, connection);
    try {
      client.actor = spawn<GatewayClient, never>(parent, asItIs, client);
      this.#clients.set(address, client);
    } catch (error) {
      if (!(error instanceof ActorError)) throw error;
      // The gateway began to stop.
      connection.drain();
    }
  }
}
