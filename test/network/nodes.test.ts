/** Two nodes with the networking API, on one database and one broker: each mapping is awake on one of them. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { z } from 'zod';
import { MAPPING, writeRight } from '../../actors/network/placed.ts';
import { isFenced } from '../../proto/ports/placement.ts';
import { failMapping } from '../../storage/network/mappings.ts';
import { stats } from '../../supervision/index.ts';
import { skipWithoutNats, startNats } from '../support/bus/nats-server.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { INGRESS, openNetwork } from '../support/service/network.ts';
import { settled, type TestNode } from '../support/service/node.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const HALF_A_MINUTE = 31_000;
const mappingRow = z.object({ id: z.string(), status: z.string(), record: z.string().nullable() });

/** Two nodes that share the mappings. */
async function openNodes(t: TestContext) {
  const nats = await startNats(t);
  const network = await openNetwork(t, { nats: nats.server });
  const [one, other] = [{ node: network.node, call: network.call }, await network.another()];
  await settled(one.node, other.node);
  const mappings = () => network.db.many(mappingRow, 'select id, status, record from domain_mappings');
  return { network, one, other, mappings, nodes: [one, other] as const };
}

/** What actors of a kind on a node were told. */
const told = ({ system }: TestNode, kind: string) => stats(system).kinds[kind]?.handled ?? 0;
const handled = (node: TestNode) => told(node, MAPPING.kind);

const count = async (of: Promise<readonly unknown[]>) => (await of).length;

describe('two nodes', { skip: skipWithoutNats() }, () => {
  test('a mapping that is asked about on both, and whose check is due, wakes on one', async (t) => {
    const { network, one, other, nodes } = await openNodes(t);
    const ann = await network.person();
    const mine = await network.map(ann, 'www.example.org');
    const id = String(mine.id);
    const [owner, idle] = one.node.placement.holds(MAPPING, id) ? [one, other] : [other, one];
    for (const { call } of nodes) {
      const { status, json } = await call(ann.token, 'POST', `/api/domain-mappings/${id}/verify`);
      assert.deepEqual([status, json.status], [200, 'pending']);
    }
    const before = handled(owner.node);
    network.clock.advance(HALF_A_MINUTE);
    await until(() => handled(owner.node) > before, { what: 'it is checked' });
    assert.equal(handled(idle.node), 0);
    await network.dns.set(`_svc-verify.www TXT "${mine.verify_token}"`);
    const { json } = await idle.call(ann.token, 'POST', `/api/domain-mappings/${id}/verify`);
    assert.deepEqual(json, { status: 'verified' });
    assert.equal((await idle.call(ann.token, 'DELETE', `/api/domain-mappings/${id}`)).status, 204);
    assert.equal(handled(idle.node), 0);
  });

  test('a user has one pace on all nodes, wherever the mappings are, and owned domains in one place', async (t) => {
    const { network, one, other, nodes } = await openNodes(t);
    const ann = await network.person();
    const ids: string[] = [];
    const container = await network.container(ann);
    for (const name of 'abcdef') ids.push(String((await network.map(ann, `${name}.example.org`, container)).id));
    const statuses: number[] = [];
    for (const [n, id] of ids.entries())
      for (let time = 0; time < 6; time++) {
        const { call } = (n + time) % 2 === 0 ? one : other;
        statuses.push((await call(ann.token, 'POST', `/api/domain-mappings/${id}/verify`)).status);
      }
    // The zone of each was looked for when it was mapped.
    assert.deepEqual(statuses, [...Array(24).fill(200), ...Array(12).fill(429)]);
    await network.connect(ann, 'example.org');
    for (const { call } of nodes) {
      const { json } = await call(ann.token, 'GET', '/api/domains');
      assert.equal(z.array(z.unknown()).parse(json.connections).length, 1);
    }
    const kinds = ['network/user', 'network/owner'] as const;
    for (const kind of kinds)
      assert.deepEqual(nodes.map(({ node }) => told(node, kind) > 0).sort(), [false, true], `${kind} is on one node`);
  });

  test('of a node that is killed while it makes a record, the other goes on, and makes no second one', async (t) => {
    const { network, one, other, mappings } = await openNodes(t);
    const ann = await network.person();
    await network.connect(ann, 'example.org');
    const { provider } = network;
    provider.fault = (path) => path.endsWith('/dns_records');
    const asked = network.map(ann, 'www.example.org').catch(() => undefined);
    await until(() => provider.calls.some((call) => call.startsWith('POST')), { what: 'the record is being made' });
    const [{ id } = { id: '' }] = await mappings();
    const [owner, heir] = one.node.placement.holds(MAPPING, id) ? [one, other] : [other, one];
    await owner.node.kill();
    await asked;
    // The provider made it, and nobody was told.
    const content = { type: 'CNAME', name: 'www.example.org', content: INGRESS, proxied: false };
    provider.records.push({ id: 'made', zone: 'zone-example.org', ...content, comment: `troupe abcdefghijkl ${id}` });
    provider.fault = undefined;
    await until(() => heir.node.placement.holds(MAPPING, id), { what: 'the other has the mapping', timeoutMs: 60_000 });
    network.clock.advance(HALF_A_MINUTE);
    await until(async () => (await mappings())[0]?.status === 'verified', { what: 'it is verified' });
    assert.deepEqual(await mappings(), [{ id, status: 'verified', record: 'made' }]);
    assert.equal(provider.records.length, 1);
    const entries = network.db.many(z.object({}), `select from audit_log where action = 'mapping.verified'`);
    assert.equal(await count(entries), 1);
  });

  test('what a former owner would write is refused in its transaction, and nothing is written', async (t) => {
    const { network, nodes, mappings } = await openNodes(t);
    const ann = await network.person();
    const mine = await network.map(ann, 'www.example.org');
    const id = String(mine.id);
    const [former, heir] = nodes.toSorted(({ node }) => (node.placement.holds(MAPPING, id) ? -1 : 1));
    assert.ok(former !== undefined && heir !== undefined);
    const right = writeRight({ db: network.db, placement: former.node.placement }, MAPPING, id);
    right.check();
    await former.node.placement.drain();
    await until(() => heir.node.placement.holds(MAPPING, id), { what: 'the other has the mapping' });
    let isReached = false;
    await assert.rejects(
      right.tx(async (tx) => {
        isReached = true;
        return failMapping(tx, id, 'by a node that has it no more');
      }),
      isFenced,
    );
    assert.equal(isReached, false);
    assert.throws(() => right.check(), isFenced);
    assert.equal((await mappings())[0]?.status, 'pending');
    await network.dns.set(`_svc-verify.www TXT "${mine.verify_token}"`);
    const { json } = await former.call(ann.token, 'POST', `/api/domain-mappings/${id}/verify`);
    assert.deepEqual(json, { status: 'verified' });
  });
});
