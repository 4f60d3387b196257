/** Forwarded connections, both ways (RFC 4254 section 7), and the agent of a client that lends it. */
import type { Channel, Client, Connection } from 'ssh2';
import { openAgent } from './internals.ts';
import { type LoginConnections, relayForward } from './relay.ts';

/** Ports and sockets of a container that a connection may listen on. */
const MAX_LISTENERS = 32;

/** What ssh2 hands with a channel that a peer wants to open. */
type Accept = () => Channel;

/** Serves a login's forwarding. Connections begin inside the container, whose own server decides where they lead. */
export function serveForwards({ client, container, sides }: LoginConnections): void {
  /** `open` asks one side for a channel; once it is there, the other side's is taken. */
  const join = (
    accept: Accept,
    reject: () => void,
    open: (opened: (error: Error | undefined, channel: Channel) => void) => void,
    isFromClient: boolean,
  ): void => {
    try {
      open((error, channel) => {
        if (error) return reject();
        const other: Channel | undefined = accept();
        if (other === undefined) return void channel.close();
        void (isFromClient ? relayForward(other, channel, sides) : relayForward(channel, other, sides));
      });
    } catch {
      reject(); // The other connection ended in this moment.
    }
  };

  client.on('tcpip', (accept, reject, { srcIP, srcPort, destIP, destPort }) =>
    join(accept, reject, (opened) => container.forwardOut(srcIP, srcPort, destIP, destPort, opened), true),
  );
  client.on('openssh.streamlocal', (accept, reject, { socketPath }: { socketPath: string }) =>
    join(accept, reject, (opened) => container.openssh_forwardOutStreamLocal(socketPath, opened), true),
  );
  container.on('tcp connection', ({ destIP, destPort, srcIP, srcPort }, accept, reject) =>
    join(accept, reject, (opened) => client.forwardOut(destIP, destPort, srcIP, srcPort, opened), false),
  );
  container.on('unix connection', ({ socketPath }, accept, reject) =>
    join(accept, reject, (opened) => client.openssh_forwardOutStreamLocal(socketPath, opened), false),
  );
  container.on('x11', (_info, accept: Accept, reject: () => void) =>
    join(accept, reject, (opened) => openAgent(client, opened), false),
  );
  serveListening(client, container);
}

/** Requests to listen inside of the container. */
function serveListening(client: Connection, container: Client): void {
  let listeners = 0;
  type Reply = ((port?: number) => void) | undefined;
  client.on('request', (accept: Reply, reject: (() => void) | undefined, name: string, info: unknown) => {
    const { bindAddr, bindPort, socketPath } = fieldsOf(info);
    const isNew = name === 'tcpip-forward' || name === 'streamlocal-forward@openssh.com';
    if (isNew && listeners >= MAX_LISTENERS) return reject?.();
    if (isNew) listeners++;
    const done = (error?: Error | null, port?: number) => {
      // One that could not be had, or one that was given up.
      if (isNew === Boolean(error)) listeners--;
      if (error) reject?.();
      else accept?.(bindPort === 0 ? port : undefined);
    };
    try {
      if (name === 'tcpip-forward') container.forwardIn(bindAddr, bindPort, done);
      else if (name === 'cancel-tcpip-forward') container.unforwardIn(bindAddr, bindPort, done);
      else if (name === 'streamlocal-forward@openssh.com') container.openssh_forwardInStreamLocal(socketPath, done);
      else if (name === 'cancel-streamlocal-forward@openssh.com')
        container.openssh_unforwardInStreamLocal(socketPath, done);
      else reject?.();
    } catch (error) {
      // The container's connection ended in this moment, or its server cannot do this.
      done(error instanceof Error ? error : new Error(String(error)));
    }
  });
}

function fieldsOf(info: unknown): { bindAddr: string; bindPort: number; socketPath: string } {
  const fields = { bindAddr: '', bindPort: 0, socketPath: '' };
  if (typeof info !== 'object' || info === null) return fields;
  if ('bindAddr' in info && typeof info.bindAddr === 'string') fields.bindAddr = info.bindAddr;
  if ('bindPort' in info && typeof info.bindPort === 'number') fields.bindPort = info.bindPort;
  if ('socketPath' in info && typeof info.socketPath === 'string') fields.socketPath = info.socketPath;
  return fields;
}
