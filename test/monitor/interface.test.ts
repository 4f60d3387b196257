/** Interface section 4.6 row by row, on each of the adapters: who gets what, and who is refused how. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { AnyEndpoint } from '../../proto/endpoint.ts';
import { monitorEndpoints, nodesSchema, podsSchema } from '../../proto/monitor/endpoints.ts';
import { UpgradeRefused, websocket } from '../support/clients/websocket.ts';
import { request } from '../support/cluster/platform.ts';
import { ADAPTERS } from '../support/http/adapters.ts';
import { sse } from '../support/monitor/event-streams.ts';
import { nodeSample, podSample } from '../support/monitor/samples.ts';
import { ADMIN, type MonitorUnderTest, openMonitor } from '../support/service/monitor.ts';
import type { Person } from '../support/service/people.ts';
import type { Cleanup } from '../support/temp.ts';
import { until } from '../support/until.ts';

const endpoints: readonly AnyEndpoint[] = monitorEndpoints;

const queryOf = ({ name }: AnyEndpoint) => (name === 'metricsHistory' ? '?namespace=compute-nobody-none' : '');

/** The status with which a path answers: 101 for a socket, 200 for a stream, which is left again. */
async function statusOf(t: Cleanup, monitor: MonitorUnderTest, endpoint: AnyEndpoint, token?: string): Promise<number> {
  if (endpoint.socket) {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    try {
      const socket = await websocket(t, monitor.ws + endpoint.path, { headers });
      await socket.close();
      return 101;
    } catch (error) {
      if (error instanceof UpgradeRefused) return error.status;
      throw error;
    }
  }
  if (!endpoint.events)
    return (await request('GET', monitor.url + endpoint.path + queryOf(endpoint), token === undefined ? {} : { token }))
      .status;
  const stream = await sse(t, monitor.url + endpoint.path, token === undefined ? {} : { token });
  stream.close();
  return stream.status;
}

for (const adapter of ADAPTERS) {
  describe(`the monitor on ${adapter}`, () => {
    const open = async (t: Cleanup) => {
      const monitor = await openMonitor(t, { adapter });
      const [boss, ann, bob] = [await monitor.person(ADMIN), await monitor.person('ann'), await monitor.person('bob')];
      return { monitor, boss, ann, bob };
    };
    const measure = async (monitor: MonitorUnderTest, ...people: [Person, ...Person[]]) => {
      monitor.measured.nodes = [nodeSample()];
      monitor.measured.pods = people.map(({ id }, index) => podSample(id, `c${index}`));
      monitor.measured.problem = undefined;
      const [{ token }] = people;
      const isMeasured = async () => (await request('GET', `${monitor.url}/pod-metrics`, { token })).status === 200;
      await until(isMeasured, { timeoutMs: 60_000 });
      await until(async () => (await request('GET', `${monitor.url}/healthz`)).status === 200, { timeoutMs: 60_000 });
    };

    test('every row of section 4.6 opens to whom section 5.4 says, and to nobody else', async (t) => {
      const { monitor, boss, ann, bob } = await open(t);
      assert.equal(monitor.adapter, adapter);
      await measure(monitor, ann, bob);
      const reader = await monitor.apiToken(ann, { scopes: { [`compute.${ann.id}.containers`]: ['read'] } });
      const whole = await monitor.apiToken(ann, { scopes: { [`compute.${ann.id}`]: ['read'] } });
      const other = await monitor.apiToken(ann, { scopes: { [`networking.${ann.id}`]: ['read'] } });
      const bossReader = await monitor.apiToken(boss, { scopes: { [`compute.${boss.id}`]: ['read'] } });
      const challenge = await monitor.challenge(ann);
      assert.deepEqual(
        endpoints.map(({ method, path, access }) => `${method} ${path} ${access}`),
        [
          ...['GET /cluster-info admin', 'GET /api/metrics/nodes admin', 'GET /pod-metrics token'],
          ...['GET /api/metrics/pods token', 'GET /api/metrics/history token', 'GET /api/graph/dependencies admin'],
          'GET /sse/health token',
          ...['GET /sse/cluster-info admin', 'GET /sse/pod-metrics token', 'GET /ws/cluster-info admin'],
          'GET /ws/pod-metrics token',
        ],
      );
      for (const endpoint of endpoints) {
        const status = (token?: string) => statusOf(t, monitor, endpoint, token);
        const granted = endpoint.socket ? 101 : 200;
        const toAdmins = endpoint.access === 'admin';
        const got = {
          none: await status(),
          garbage: await status('not.a.token'),
          challenge: await status(challenge),
          admin: await status(boss.token),
          adminsApiToken: await status(bossReader.token),
          user: await status(ann.token),
          apiToken: await status(reader.token),
          broaderApiToken: await status(whole.token),
          apiTokenWithoutScope: await status(other.token),
        };
        const users = toAdmins ? 403 : granted;
        assert.deepEqual(
          got,
          {
            ...{ none: 401, garbage: 401, challenge: 401, admin: granted, adminsApiToken: users, user: users },
            ...{ apiToken: users, broaderApiToken: users, apiTokenWithoutScope: 403 },
          },
          endpoint.path,
        );
        const posted = await request('POST', monitor.url + endpoint.path, { token: boss.token, body: {} });
        assert.equal(posted.status, 405, endpoint.path);
        if (endpoint.socket)
          assert.equal((await request('GET', monitor.url + endpoint.path, { token: boss.token })).status, 426);
      }
      const missing = await request('GET', `${monitor.url}/pod-metrics`, { token: other.token });
      assert.equal(missing.json.error, `forbidden: missing compute.${ann.id}.containers scope`);
    });

    test("streams and REST say the same, each to its audience; an API token sees its user's", async (t) => {
      const { monitor, boss, ann, bob } = await open(t);
      await measure(monitor, ann, bob);
      const reader = await monitor.apiToken(ann, { scopes: { [`compute.${ann.id}`]: ['read'] } });
      const seen = { [boss.token]: ['c0', 'c1'], [ann.token]: ['c0'], [bob.token]: ['c1'], [reader.token]: ['c0'] };
      const names = (value: unknown) => podsSchema.parse(value).pods.map(({ name }) => name);
      for (const [token, expected] of Object.entries(seen)) {
        assert.deepEqual(names((await request('GET', `${monitor.url}/pod-metrics`, { token })).json), expected);
        const stream = await sse(t, `${monitor.url}/sse/pod-metrics?token=${token}`);
        assert.deepEqual(names((await until(() => stream.events[0])).data), expected);
        const socket = await websocket(t, `${monitor.ws}/ws/pod-metrics?token=${token}`);
        for (let frame = 0; frame < 3; frame++) assert.deepEqual(names(await socket.json()), expected);
      }
      const both = await sse(t, `${monitor.url}/sse/health`, { token: bob.token });
      await until(() => both.events.length >= 6 && both.comments.includes(': ping'), { timeoutMs: 60_000 });
      assert.equal(new Set(both.events.map(({ id }) => id)).size, both.events.length);
      const nodes = await websocket(t, `${monitor.ws}/ws/cluster-info`, {
        headers: { authorization: `Bearer ${boss.token}` },
      });
      assert.equal(nodesSchema.parse(await nodes.json()).nodes[0]?.name, 'box1');
    });

    test('before anything was measured REST says to come back, and streams wait', async (t) => {
      const { monitor, boss, ann } = await open(t);
      for (const path of ['/cluster-info', '/api/metrics/nodes', '/pod-metrics', '/api/metrics/pods']) {
        const { status, headers, json } = await request('GET', monitor.url + path, { token: boss.token });
        assert.equal(status, 503, path);
        assert.equal(json.code, 'unavailable');
        assert.ok(Number(headers.get('retry-after')) > 0);
      }
      const stream = await sse(t, `${monitor.url}/sse/health`, { token: ann.token });
      assert.equal(stream.status, 200);
      const health = async () => (await request('GET', `${monitor.url}/healthz`)).json;
      await until(async () => JSON.stringify(await health()).includes('nothing was measured yet'));
      assert.equal(stream.events.length, 0);
      await measure(monitor, ann);
      await until(() => stream.events.length >= 2, { timeoutMs: 60_000 });
      assert.deepEqual(await health(), { status: 'ok' });
    });

    test('a source that fails leaves the last snapshot with its time, and /healthz names it until it is back', async (t) => {
      const { monitor, boss, ann } = await open(t);
      await measure(monitor, ann);
      monitor.measured.problem = 'the engine is on fire';
      const problem = async () => String((await request('GET', `${monitor.url}/healthz`)).json.problems ?? '');
      await until(async () => /test: the engine is on fire \(last measured \d+ s ago\)/.test(await problem()), {
        timeoutMs: 30_000,
      });
      const stamp = async () => {
        const { status, json } = await request('GET', `${monitor.url}/pod-metrics`, { token: ann.token });
        assert.equal(status, 200);
        return podsSchema.parse(json).timestamp;
      };
      const last = await stamp();
      const socket = await websocket(t, `${monitor.ws}/ws/cluster-info?token=${boss.token}`);
      assert.equal(nodesSchema.parse(await socket.json()).timestamp, last);
      await until(async () => Date.now() - Date.parse(last) > 1000);
      assert.equal(await stamp(), last);
      await measure(monitor, ann);
      await until(async () => (await stamp()) !== last);
      await socket.json();
    });

    test('streams end when their API token is deleted, its account loses the scope, or its user is gone', async (t) => {
      const { monitor, ann, bob } = await open(t);
      await measure(monitor, ann, bob);
      const mayRead = (person: Person) => ({ [`compute.${person.id}.containers`]: ['read'] });
      const account = await monitor.account(ann, mayRead(ann));
      const kept = await monitor.apiToken(ann, { scopes: mayRead(ann) });
      const deleted = await monitor.apiToken(ann, { scopes: mayRead(ann) });
      const ofAccount = await monitor.apiToken(ann, { account });
      const streamsOf = async (token: string) => {
        const socket = await websocket(t, `${monitor.ws}/ws/pod-metrics?token=${token}`);
        let closed: string | undefined;
        void socket.closed.then(({ code, reason }) => {
          closed = `${code} ${reason}`;
        });
        const events = [
          await sse(t, `${monitor.url}/sse/pod-metrics`, { token }),
          await sse(t, `${monitor.url}/sse/health`, { token }),
        ];
        return { closed: () => closed, over: () => events.map((one) => one.isOver()) };
      };
      const all = {
        kept: await streamsOf(kept.token),
        deleted: await streamsOf(deleted.token),
        ofAccount: await streamsOf(ofAccount.token),
        bobs: await streamsOf(bob.token),
      };
      const ended = ({ closed, over }: (typeof all)['kept'], what: string) =>
        until(() => closed() !== undefined && over().every(Boolean), { what, timeoutMs: 60_000 });
      await monitor.revoke(ann, deleted.tokenId);
      await ended(all.deleted, 'the streams of a deleted token end');
      assert.equal(all.deleted.closed(), '1008 token revoked');
      await monitor.setScopes(ann, account, { [`networking.${ann.id}`]: ['read'] });
      await ended(all.ofAccount, 'the streams of an account without the scope end');
      assert.equal(all.ofAccount.closed(), '1008 scope withdrawn');
      await monitor.forgetUser(bob);
      await ended(all.bobs, 'the streams of a user who is gone end');
      assert.deepEqual([all.kept.closed(), all.kept.over()], [undefined, [false, false]]);
      assert.equal((await request('GET', `${monitor.url}/pod-metrics`, { token: deleted.token })).status, 401);
    });

    test('streams end when their token expires, and when the service leaves', async (t) => {
      const { monitor, ann } = await open(t);
      await measure(monitor, ann);
      const socket = await websocket(t, `${monitor.ws}/ws/pod-metrics?token=${ann.token}`);
      const stream = await sse(t, `${monitor.url}/sse/pod-metrics`, { token: ann.token });
      await until(() => stream.events.length > 0);
      monitor.clock.advance(3_601_000);
      await until(() => stream.isOver(), { what: 'the event stream of an expired token ends' });
      monitor.clock.advance(-3_601_000);
      const other = await sse(t, `${monitor.url}/sse/pod-metrics`, { token: ann.token });
      await until(() => other.events.length > 0);
      monitor.drain();
      assert.equal((await socket.closed).code, 1012);
      await until(() => other.isOver(), { what: 'event streams end with the service' });
      assert.equal((await request('GET', `${monitor.url}/sse/pod-metrics`, { token: ann.token })).status, 503);
    });
  });
}
