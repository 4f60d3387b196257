/** What private networks are on Docker: when they are made and removed, and what leads into and out of them. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { z } from 'zod';
import { parseSubnet } from '../../lib/ipv4.ts';
import { type PrivateNetwork, successorId } from '../../proto/ports/engine.ts';
import { namingOf } from '../../transports/engines/docker/naming.ts';
import { keys, Suite } from '../support/engine/conformance-suite.ts';
import { dockerSkip, dockerUnderTest } from '../support/engine/docker-under-test.ts';
import { pause } from '../support/pause.ts';
import { until } from '../support/until.ts';

const networks = z.array(
  z.object({
    Id: z.string(),
    Name: z.string(),
    Internal: z.boolean(),
    Labels: z.record(z.string(), z.string()),
    Options: z.record(z.string(), z.string()),
    IPAM: z.object({ Config: z.array(z.object({ Subnet: z.string() })) }),
  }),
);

const member = (change: Partial<PrivateNetwork> = {}): PrivateNetwork => ({
  owner: 'u1',
  name: 'shop',
  alias: null,
  place: 1,
  ...change,
});
const db = member({ alias: 'db', place: 2 });

describe('private networks on Docker', { skip: dockerSkip() }, () => {
  let under: Awaited<ReturnType<typeof dockerUnderTest>>;
  let suite: Suite;
  before(async () => {
    under = await dockerUnderTest();
    suite = new Suite(under);
    await under.engine.ensureImage(under.image, { always: false });
  });
  after(() => under?.end());

  const naming = () => namingOf(under.installation);
  const found = async (): Promise<z.infer<typeof networks>> => {
    const query = { filters: naming().filters() };
    const all = await under.client.json('GET', '/networks', networks, { query });
    return all.filter(({ Name }) => naming().privateNetworkOf(Name) !== undefined);
  };
  const joined = async (network: PrivateNetwork): Promise<string> => {
    const id = await suite.started({ userId: network.owner });
    await under.engine.join(id, network);
    return id;
  };
  const printed = async (id: string, script: string): Promise<string> =>
    (await under.exec(id, script)).toString().trim();
  const reaches = (from: string, host: string): Promise<unknown> =>
    until(async () => under.connects?.(from, host, 22), { what: `${host} is reached` });

  it('are made with the first member, are nobody else’s, and go with the last', async () => {
    const [a, b] = [await joined(member()), await joined(db)];
    const other = await joined(member({ owner: 'u2' }));
    const all = await found();
    assert.deepEqual(all.map(({ Labels }) => [Labels['troupe.user'], Labels['troupe.network']]).sort(), [
      ['u1', 'shop'],
      ['u2', 'shop'],
    ]);
    for (const { Internal, Options, IPAM } of all) {
      assert.equal(Internal, true);
      assert.match(Options['com.docker.network.bridge.name'] ?? '', /^trpn[0-9a-f]{11}$/);
      const range = parseSubnet(IPAM.Config[0]?.Subnet ?? '');
      assert.equal((range?.last ?? 0) - (range?.first ?? 0), 15);
    }
    // As `Engine.remove` does, and as who leaves does, running or stopped.
    await under.engine.remove(other);
    assert.equal((await found()).length, 1);
    await under.engine.join(a, undefined);
    assert.equal((await found()).length, 1);
    await under.engine.stop(b, 1);
    assert.equal((await found()).length, 1);
    await under.engine.join(b, undefined);
    assert.deepEqual(await found(), []);
    for (const id of [a, b]) await under.engine.remove(id);
  });

  it('leave a container its own way out, and the machine has no address in them', async () => {
    const [a, b] = [await suite.started(), await joined(db)];
    const before = await printed(a, 'ip route | grep default');
    const { address } = (await under.engine.inspect(a)) ?? {};
    await under.engine.join(a, member());
    assert.equal(await printed(a, 'ip route | grep default'), before);
    assert.equal((await under.engine.inspect(a))?.address, address);
    assert.equal((await printed(a, 'ip route | grep -c default')).trim(), '1');
    await reaches(a, 'db');
    const bridge = (await found())[0]?.Options['com.docker.network.bridge.name'] ?? '';
    assert.ok(existsSync(`/sys/class/net/${bridge}`), bridge);
    const own = networkInterfaces()[bridge] ?? [];
    assert.deepEqual(
      own.filter(({ family }) => family === 'IPv4'),
      [],
    );
    // By the address that members have, nobody else reaches them.
    const inside = await printed(b, 'ip -4 -o addr | grep eth1 || ip -4 -o addr');
    const inward = /inet (\d+\.\d+\.\d+\.\d+)\/28/.exec(inside)?.[1] ?? assert.fail(inside);
    assert.equal(await under.connects?.(a, inward, 22), true);
    const [outside, other] = [await suite.started(), await joined(member({ owner: 'u2' }))];
    for (const from of [outside, other]) assert.equal(await under.connects?.(from, inward, 22), false);
    for (const id of [a, b, outside, other]) await under.engine.remove(id);
  });

  it('are found again by a platform that starts anew, with the addresses that members had', async () => {
    const [a, b] = [await joined(member()), await joined(db)];
    const address = await printed(b, "ip -4 -o addr | grep -o 'inet [0-9.]*/28'");
    const again = await under.again();
    try {
      assert.deepEqual((await again.inspect(b))?.network, db);
      await again.join(b, db);
      await again.stop(b, 1);
      await again.start(b, []);
      await suite.answers(b);
    } finally {
      await again.close();
    }
    assert.equal(await printed(b, "ip -4 -o addr | grep -o 'inet [0-9.]*/28'"), address);
    await reaches(a, 'db');
    for (const id of [a, b]) await under.engine.remove(id);
    assert.deepEqual(await found(), []);
  });

  it('are made anew when somebody removes them, and a member that was taken out comes back', async () => {
    const [a, b] = [await joined(member()), await joined(db)];
    const [{ Name = '' } = {}] = await found();
    const body = { Container: naming().container(b), Force: true };
    await under.client.call('POST', `/networks/${Name}/disconnect`, { body });
    assert.equal((await under.engine.inspect(b))?.network, null);
    await under.engine.join(b, db);
    await reaches(a, 'db');
    for (const id of [a, b]) await under.engine.stop(id, 1);
    await under.client.call('DELETE', `/networks/${Name}`);
    for (const [id, network] of [
      [b, db],
      [a, member()],
    ] as const) {
      await under.engine.join(id, network);
      await under.engine.start(id, []);
      await suite.answers(id);
    }
    await reaches(a, 'db');
    for (const id of [a, b]) await under.engine.remove(id);
    assert.deepEqual(await found(), []);
  });

  it('wait for an address that a former member still has', async () => {
    const [a, b] = [await joined(member()), await suite.started()];
    await assert.rejects(under.engine.join(b, member({ alias: 'db' })), /cannot join shop yet/);
    await under.engine.join(a, undefined);
    await under.engine.join(b, member({ alias: 'db' }));
    for (const id of [a, b]) await under.engine.remove(id);
    assert.deepEqual(await found(), []);
  });

  it('let nobody meet one that ends by an alias, when it is ended as long after a promotion as the engine says', async () => {
    const { engine } = under;
    const [first, second] = [member({ alias: 'web' }), member({ alias: 'web', place: 13 })];
    const [id, other] = [await suite.started({ mountPaths: [] }), await suite.started()];
    await engine.join(id, first);
    await engine.join(other, member({ place: 2 }));
    const inside = async (script: string): Promise<string> => {
      const run = await engine.run(other, ['sh', '-c', script], AbortSignal.timeout(120_000));
      run.stdin.end();
      run.stderr.resume();
      return text(run.stdout);
    };
    // Several at a time, so that some are on the way at each moment.
    const asking = inside(
      `for each in 1 2 3 4; do
         (until [ -e /tmp/over ]; do nc -w 5 web 22 < /dev/null | grep -q SSH-2.0 && echo met || echo failed; done) &
       done
       wait`,
    );
    for (const network of [second, first, second]) {
      await engine.beginSuccessor(suite.again({ id, mountPaths: [] }), keys, undefined, network);
      await suite.answers(successorId(id));
      await engine.promote(id, network);
      await pause(engine.aliasLastsMs, 'watch');
      await engine.endOthers(id, 1);
    }
    await inside('touch /tmp/over');
    const answers = (await asking).trim().split('\n');
    assert.ok(answers.length > 50, String(answers.length));
    assert.deepEqual(
      answers.filter((answer) => answer !== 'met'),
      [],
    );
    for (const one of [id, other]) await engine.remove(one);
  });
});
