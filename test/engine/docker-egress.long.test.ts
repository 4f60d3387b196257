/** What single containers on Docker may reach: nothing, a list, or the world, from their first moment on. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { successorId } from '../../proto/ports/engine.ts';
import { Suite } from '../support/engine/conformance-suite.ts';
import { dockerUnderTest } from '../support/engine/docker-under-test.ts';
import { outsideWorld, skipWithoutWorld } from '../support/engine/outside-world.ts';
import { pause } from '../support/pause.ts';
import { until } from '../support/until.ts';

/** In the world, at addresses set aside for documentation (RFC 5737). */
const [site, other] = ['203.0.113.5', '203.0.113.9'];
/** Prints who came by TCP, with the address, or by UDP, with the first label of the name that was asked for. */
const server = `
const told = (what) => console.log(what);
require('net').createServer((s) => { told('tcp ' + s.localAddress); s.on('error', () => {}).end('reached\\n'); }).listen(8080, '::');
const dgram = require('dgram').createSocket('udp4');
dgram.on('message', (asked) => told('udp ' + asked.subarray(13, 13 + asked[12]))).bind(53, () => told('up'));`;

describe('what a container on Docker may reach', { skip: skipWithoutWorld() }, () => {
  let under: Awaited<ReturnType<typeof dockerUnderTest>>;
  let suite: Suite;
  let world: Awaited<ReturnType<typeof outsideWorld>>;

  before(async () => {
    world = await outsideWorld({
      here: { ipv4: ['203.0.113.1/24'], ipv6: 'fd77::1/64' },
      there: { ipv4: [`${site}/24`, `${other}/24`], ipv6: 'fd77::2/64' },
      server,
    });
    under = await dockerUnderTest();
    suite = new Suite(under);
    await under.engine.ensureImage(under.image, { always: false });
  });
  after(async () => {
    await world?.end();
    await under?.end();
  });
  const nobodyCame = () => void world.said.splice(0);

  const said = async (id: string, script: string): Promise<boolean> =>
    /reached/.test((await under.exec(id, script)).toString());
  const byTcp = (id: string, address: string): Promise<boolean> =>
    said(id, `nc -w 2 ${address} 8080 < /dev/null > /tmp/tcp 2>&1; cat /tmp/tcp`);
  let questions = 0;
  /** Asks a name server there, not that of the machine, for a name of its own: the question before may come late. */
  const byUdp = async (id: string, address: string): Promise<boolean> => {
    const label = `q${++questions}`;
    await under.exec(id, `timeout 2 nslookup ${label}.example.com ${address} > /dev/null 2>&1`);
    return world.said.includes(`udp ${label}`);
  };
  const seen = async (id: string) => ({
    tcp: await byTcp(id, site),
    udp: await byUdp(id, site),
    six: await byTcp(id, 'fd77::2'),
    other: await byTcp(id, other),
  });
  const all = { tcp: true, udp: true, six: false, other: true };
  const nothing = { tcp: false, udp: false, six: false, other: false };
  const set = (id: string, egress?: readonly string[]): Promise<void> =>
    under.engine.create(suite.again({ id, mountPaths: [], ...(egress === undefined ? {} : { egress }) }));

  it('is all, nothing, or a list, changes while it runs, and never what reaches it', async () => {
    const id = await suite.started({ mountPaths: [] });
    await until(async () => (await seen(id)).tcp, { what: 'the world is reached' });
    assert.deepEqual(await seen(id), all);
    await set(id, []);
    assert.deepEqual(await seen(id), nothing);
    await suite.answers(id);
    await set(id, [`${site}/32`]);
    assert.deepEqual(await seen(id), { ...all, other: false });
    await set(id, []);
    assert.deepEqual(await seen(id), nothing);
    await set(id);
    assert.deepEqual(await seen(id), all);
    await suite.answers(id);
    await under.engine.remove(id);
  });

  it('is nothing from the first moment of each start, of its successor, and for commands in it', async () => {
    const { engine } = under;
    const tries = `i=0; while [ $i -lt 200 ]; do nc -w 1 ${site} 8080 < /dev/null; timeout 1 nslookup example.com ${site} & i=$((i+1)); done > /dev/null 2>&1 & exec sleep 600`;
    const spec = suite.spec({ mountPaths: [], egress: [], isConfigured: true });
    const workload = { env: {}, entrypoint: ['/bin/sh', '-c', tries] };
    nobodyCame();
    for (let times = 0; times < 3; times += 1) {
      await engine.create(spec);
      await engine.start(spec.id, spec.authorizedKeys, workload);
      await pause(400, 'watch');
      if (times < 2) await engine.stop(spec.id, 0);
    }
    await engine.beginSuccessor(spec, spec.authorizedKeys, workload, undefined);
    await pause(400, 'watch');
    await engine.promote(spec.id, undefined);
    assert.equal((await engine.inspect(spec.id))?.phase, 'running');
    assert.equal(await engine.inspect(successorId(spec.id)), undefined);
    assert.equal(await byTcp(spec.id, site), false);
    assert.deepEqual(world.said, []);
    // The same tries come through once they may: nothing else was in their way.
    const { egress: _, ...open } = spec;
    await engine.create(open);
    await until(() => world.said.length > 0, { what: 'the world is reached' });
    await engine.remove(spec.id);
  });

  it('is not this machine, and is the private network all the same', async () => {
    const { engine } = under;
    const closed = await suite.started({ egress: [] });
    const member = await suite.started({});
    await engine.join(closed, { owner: 'u1', name: 'shop', alias: 'web', place: 1 });
    await engine.join(member, { owner: 'u1', name: 'shop', alias: 'db', place: 2 });
    const listener = createServer((socket) => socket.end('reached\n'));
    listener.listen(0, '0.0.0.0');
    await once(listener, 'listening');
    try {
      const address = listener.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      await until(() => under.connects?.(closed, 'db', 22) ?? false, { what: 'a member is reached by its name' });
      await until(() => under.connects?.(member, 'web', 22) ?? false, { what: 'and reaches it' });
      assert.equal(await under.connects?.(closed, '203.0.113.1', port), false);
      assert.deepEqual(await seen(closed), nothing);
      // No name leads out: the answer is none, and nobody waits for it for long.
      const asks = 'timeout 25 nslookup example.com 127.0.0.11 2>&1; echo "ended with $?"';
      const names = (await under.exec(closed, asks)).toString();
      assert.doesNotMatch(names, /Address.*: [0-9.]+\r?\n(?!.*127\.0\.0\.11)[\s\S]*Name:/);
      assert.doesNotMatch(names, /ended with (124|143)/);
    } finally {
      listener.close();
    }
    await engine.remove(closed);
    await engine.remove(member);
  });

  it('stays so for a platform that begins anew, and goes with the container', async () => {
    const chains = (): readonly string[] =>
      execFileSync('iptables', ['-w', '10', '-S'], { encoding: 'utf8' }).match(/^-N TRP-E-.*$/gm) ?? [];
    const before = chains();
    const id = await suite.started({ mountPaths: [], egress: [] });
    const [own, ...more] = chains().filter((chain) => !before.includes(chain));
    assert.ok(own);
    assert.deepEqual(more, []);
    const later = await under.again();
    assert.equal((await later.inspect(id))?.egress, 'unknown');
    assert.deepEqual(await seen(id), nothing);
    await later.create(suite.again({ id, mountPaths: [], egress: [] }));
    assert.deepEqual((await later.inspect(id))?.egress, []);
    assert.deepEqual(await seen(id), nothing);
    await later.remove(id);
    assert.ok(!chains().includes(own));
    await later.close();
  });
});
