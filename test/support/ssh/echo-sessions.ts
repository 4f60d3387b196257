/** Sessions by SSH that echo what they are told, with owners and containers in a real database. */
import { once } from 'node:events';
import ssh2, { type ClientChannel } from 'ssh2';
import { z } from 'zod';
import type { Db } from '../../../storage/db.ts';
import { fingerprintOf } from '../../../transports/gateway/ssh/login.ts';
import { generateKeyPair } from '../../../transports/ssh/keys.ts';
import { addContainer } from '../gateway/containers.ts';
import type { Cleanup } from '../temp.ts';
import { until } from '../until.ts';

/** A container, and the private key that opens it. */
export interface SshOwner {
  readonly containerId: string;
  readonly privateKey: string;
}

const keyRow = z.object({ id: z.number() });

/** Adds the `n`th owner (from 0, at most 90), with a container that runs and a key chosen for it. */
export async function addSshOwner(db: Db, n: number): Promise<SshOwner> {
  const [userId, containerId] = [`sshuser000${10 + n}`, `sshcontain${10 + n}`];
  const { privateKey, publicKey } = generateKeyPair('owner');
  const fingerprint = fingerprintOf(Buffer.from(publicKey.split(' ')[1] ?? '', 'base64'));
  await db.run(`insert into users (id, username, display_name, password_hash) values ($1, $1, 'Owner', 'x')`, [userId]);
  await addContainer(db, containerId, { userId, isSshEnabled: true });
  const key = await db.one(
    keyRow,
    `insert into ssh_keys (user_id, slot, name, public_key, fingerprint) values ($1, 1, 'key', $2, $3) returning id`,
    [userId, publicKey, fingerprint],
  );
  await db.run('insert into container_keys values ($1, $2)', [containerId, key?.id]);
  return { containerId, privateKey };
}

/** Logs in and starts a command that echoes. `answers`: whether it still does. */
export async function sshSession(
  t: Cleanup,
  port: number,
  { containerId, privateKey }: SshOwner,
  localAddress: string,
): Promise<{ answers(): Promise<boolean> }> {
  const client = new ssh2.Client();
  t.after(() => void client.destroy());
  client.connect({ host: '127.0.0.1', port, localAddress, username: containerId, privateKey, readyTimeout: 60_000 });
  await once(client, 'ready');
  client.on('error', () => {});
  const channel = await new Promise<ClientChannel>((resolve, reject) =>
    client.exec('cat', (error, opened) => (error ? reject(error) : resolve(opened))),
  );
  let text = '';
  let isOver = false;
  channel.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  channel.on('close', () => {
    isOver = true;
  });
  return {
    answers: async () => {
      if (isOver) return false;
      channel.write('still there?');
      return until(() => text === 'still there?' || isOver, { what: 'an echo' }).then(
        () => !isOver,
        () => false,
      );
    },
  };
}
