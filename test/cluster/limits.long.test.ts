/** What a user may have of containers, keys, hostnames and sockets holds when clients race over several processes of the services. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newId } from '../../proto/ids.ts';
import { MAX_MAPPINGS } from '../../proto/network/endpoints.ts';
import { DEFAULT_USER_LIMITS } from '../../proto/user-limits.ts';
import { insertContainer } from '../../storage/compute/containers.ts';
import { type SocketEnd, type TestSocket, websocket } from '../support/clients/websocket.ts';
import { race, startFront } from '../support/cluster/balancing-client.ts';
import { deleteAll } from '../support/cluster/platform.ts';
import { layGround, type Person, skipWithoutServices } from '../support/cluster/services.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { until } from '../support/until.ts';

const skip = skipWithoutServices();
const FULL_REASON = 'connection limit reached: close one, or the operator raises it by troupe users limits NAME';
const { containers: CONTAINERS, ssh_keys: SSH_KEYS, notification_sockets: SOCKETS } = DEFAULT_USER_LIMITS;

test('limits hold while a user races over three processes of compute: containers, SSH keys', { skip }, async (t) => {
  const ground = await layGround(t);
  const [ann, bob] = [await ground.person('ann'), await ground.person('bob')];
  const processes = await Promise.all([ground.start('compute'), ground.start('compute'), ground.start('compute')]);
  await ground.settled('compute');
  const front = startFront(ground, processes);
  ground.after(() => deleteAll(processes[0].url, ann.token));
  const addKey = (person: Person, name: string) =>
    front.request('POST', '/compute/ssh-keys', { token: person.token, body: { name, public_key: publicKey() } });

  const keys = await race(SSH_KEYS + 20, (n) => addKey(bob, `key ${n}`));
  assert.deepEqual([keys.get(200), keys.get(403)], [SSH_KEYS, 20], JSON.stringify([...keys]));
  assert.equal(await ground.db.run('select from ssh_keys where user_id = $1', [bob.id]), SSH_KEYS);

  const { json: key } = await addKey(ann, 'laptop');
  const create = (n: number) =>
    front.request('POST', '/compute/containers', {
      token: ann.token,
      body: { name: `box ${n}`, ssh_key_ids: [key.id], memory_mb: 128 },
    });
  // At the limit less one.
  for (let n = 1; n < CONTAINERS; n++) assert.equal((await create(n)).status, 200);
  const made = await race(30, create);
  assert.deepEqual([made.get(200), made.get(403)], [1, 29], JSON.stringify([...made]));
  assert.equal(await ground.db.run('select from containers where user_id = $1', [ann.id]), CONTAINERS);
});

test('one of all who claim a hostname at once at three gateways has it; mappings have their limit there, too', {
  skip,
}, async (t) => {
  const ground = await layGround(t);
  const { db } = ground;
  const people = await Promise.all(['ann', 'bob', 'carol', 'dan'].map((name) => ground.person(name)));
  const containers = new Map<Person, string>();
  for (const person of people) {
    const row = await db.tx((tx) =>
      insertContainer(tx, {
        ...{ id: newId(), userId: person.id, name: 'box', instanceType: 'nano', memoryMb: 128, storageGb: 1 },
        ...{ image: null, pullPolicy: 'IfNotPresent', mountPaths: ['/root'], sshEnabled: false },
      }),
    );
    containers.set(person, row?.id ?? '');
  }
  const gateways = await Promise.all([ground.start('gateway'), ground.start('gateway'), ground.start('gateway')]);
  const front = startFront(
    ground,
    gateways.map(({ net }) => net),
  );
  const claim = async (person: Person, domain: string) => {
    const body = { domain, container_id: containers.get(person), target_port: 80 };
    return front.request('POST', '/api/domain-mappings', { token: person.token, body });
  };
  const personOf = (n: number) => people[n % people.length] ?? people[0] ?? assert.fail();

  // One hostname, as each of them may write it.
  const spellings = ['shop.example.org', 'Shop.Example.ORG', 'shop.example.org.', 'SHOP.example.org'];
  for (let round = 0; round < 5; round++) {
    const claims = await race(24, (n) => claim(personOf(n + Math.floor(n / 4)), `r${round}-${spellings[n % 4]}`));
    assert.deepEqual([claims.get(201), claims.get(409)], [1, 23], JSON.stringify([...claims]));
  }
  assert.equal(await db.run('select from domain_mappings'), 5);
  const taken = await claim(personOf(1), 'r0-shop.example.org');
  assert.deepEqual([taken.status, taken.json.value], [409, 'domain already in use']);

  const ann = personOf(0);
  const had = await db.run('select from domain_mappings where user_id = $1', [ann.id]);
  const added = await race(MAX_MAPPINGS + 15, (n) => claim(ann, `n${n}.example.org`));
  assert.deepEqual([added.get(201), added.get(403)], [MAX_MAPPINGS - had, 15 + had], JSON.stringify([...added]));
  assert.equal(await db.run('select from domain_mappings where user_id = $1', [ann.id]), MAX_MAPPINGS);
});

test('five sockets of notifications stay when a user opens twelve at once over three processes of notify; then a place is free when one has gone', {
  skip,
}, async (t) => {
  const ground = await layGround(t);
  const [ann, bob] = [await ground.person('ann'), await ground.person('bob')];
  const processes = await Promise.all([ground.start('notify'), ground.start('notify'), ground.start('notify')]);
  await ground.settled('notify');
  const open = new Set<TestSocket>();
  const ends: SocketEnd[] = [];
  const connect = async (n: number, { token }: Person) => {
    const { url = '' } = processes[n % processes.length] ?? {};
    const socket = await websocket(ground, `${url.replace('http', 'ws')}/ws/notifications?token=${token}`);
    if (token !== ann.token) return socket;
    open.add(socket);
    void socket.closed.then((end) => {
      open.delete(socket);
      ends.push(end);
    });
    return socket;
  };
  const all = (count: number) => Promise.all(Array.from({ length: count }, (_, n) => connect(n, ann)));
  const full = { code: 1008, reason: FULL_REASON };
  /** Until so many have been closed: each because of the limit. */
  const closed = async (count: number) => {
    await until(() => ends.length >= count, { what: `${count} sockets are closed`, timeoutMs: 60_000 });
    assert.deepEqual([ends, open.size], [Array(count).fill(full), SOCKETS]);
    ends.length = 0;
  };

  const others = await connect(0, bob);
  await all(12);
  await closed(12 - SOCKETS);
  // None of the five goes for those that come later, whichever process they come to.
  const five = [...open];
  await all(3);
  await closed(3);
  assert.deepEqual([...open], five);

  for (const leaving of five.slice(0, 3)) {
    open.delete(leaving);
    assert.equal((await leaving.close(1000)).code, 1000);
    ends.length = 0;
    await all(3);
    await closed(2);
  }
  assert.equal(five.filter((socket) => open.has(socket)).length, 2);
  assert.equal(others.socket.readyState, others.socket.OPEN, 'nobody else is touched');
});
