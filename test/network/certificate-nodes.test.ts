/** Certificates on two nodes of one cluster: each hostname is ordered for where its shard is. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { CERTIFICATE, writeRight } from '../../actors/network/placed.ts';
import type { CertificateAuthority } from '../../proto/ports/acme.ts';
import { isFenced } from '../../proto/ports/placement.ts';
import { startOrder } from '../../storage/network/certificate-orders.ts';
import { skipWithoutNats, startNats } from '../support/bus/nats-server.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openIssuing, PATIENT } from '../support/network/issuing.ts';
import { SEAL_KEY } from '../support/network/mapped-hosts.ts';
import { skipWithoutPebble } from '../support/network/pebble.ts';
import { settled } from '../support/service/node.ts';
import { until } from '../support/until.ts';

failOnLeaks();

/** Two gateways that are nodes; `orders` of each are the hostnames that it turned to the authority for. */
async function openNodes(t: TestContext) {
  const nats = await startNats(t);
  const issuing = await openIssuing(t);
  const add = async () => {
    const real = issuing.authority();
    const orders: string[] = [];
    const state = { orders, isSilent: false };
    const authority: CertificateAuthority = {
      directoryUrl: real.directoryUrl,
      newKey: () => real.newKey(),
      register: (key, signal) => real.register(key, signal),
      close: () => real.close(),
      issue: (order) => {
        orders.push(order.hostname);
        const onOrder = async (url: string) => {
          await order.onOrder(url);
          if (!state.isSilent) return;
          await new Promise((_resolve, reject) =>
            order.signal.addEventListener('abort', () => reject(order.signal.reason)),
          );
        };
        return real.issue({ ...order, onOrder });
      },
    };
    const gateway = await issuing.gateways.gateway(authority, { nats: nats.server });
    assert.ok(gateway.node !== undefined);
    return Object.assign(state, { gateway, node: gateway.node });
  };
  const [one, other] = [await add(), await add()];
  await settled(one.node, other.node);
  const holder = (hostname: string) => (one.node.placement.holds(CERTIFICATE, hostname) ? one : other);
  return { ...issuing, one, other, holder };
}

describe('two nodes', { skip: skipWithoutPebble() || skipWithoutNats(), timeout: 900_000 }, () => {
  test('each orders for the hostnames of its shards, once', async (t) => {
    const { gateways, pebble, issued, one, other, holder } = await openNodes(t);
    const names = ['one', 'two', 'three', 'four', 'five', 'six'].map((name) => `${name}.example.com`);
    for (const name of names) await gateways.map(name);
    for (const name of names) await issued(name);
    for (const node of [one, other])
      assert.deepEqual(node.orders.toSorted(), names.filter((name) => holder(name) === node).toSorted());
    assert.equal(pebble.orders(), names.length);
  });

  test('an order whose node dies goes on at the other, which places none of its own', async (t) => {
    const { gateways, pebble, issued, one, other, holder } = await openNodes(t);
    const name = 'orphan.example.com';
    const owner = holder(name);
    const heir = owner === one ? other : one;
    owner.isSilent = true;
    await gateways.map(name);
    const placed = () => gateways.db.run('select from certificates where order_url is not null');
    await until(placed, { ...PATIENT, what: 'an order' });
    assert.deepEqual([owner.orders, heir.orders], [[name], []]);
    await owner.node.kill();
    // The authority asks the first gateway, which goes on serving.
    await issued(name);
    assert.deepEqual(heir.orders, [name]);
    assert.equal(pebble.orders(), 1);
  });

  test('a former owner begins no order', async (t) => {
    const { gateways, pebble, one, other, holder } = await openNodes(t);
    const name = 'late.example.com';
    const former = holder(name);
    const heir = former === one ? other : one;
    const right = writeRight({ db: gateways.db, placement: former.node.placement }, CERTIFICATE, name);
    await former.node.placement.drain();
    await until(() => heir.node.placement.holds(CERTIFICATE, name), { what: 'the other has the hostname' });
    heir.isSilent = true;
    await gateways.map(name);
    const order = { directoryUrl: pebble.directoryUrl, leaseMs: 1000, sealKey: SEAL_KEY };
    await assert.rejects(startOrder(right, name, order), isFenced);
    assert.deepEqual(former.orders, []);
  });
});
