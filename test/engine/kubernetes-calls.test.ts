/** What many containers at once ask of an API server. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { type TestContext, test } from 'node:test';
import type { LogOptions } from '../../proto/ports/engine.ts';
import { ClusterCache } from '../../transports/engines/kubernetes/cache.ts';
import { RemoteProcess } from '../../transports/engines/kubernetes/exec.ts';
import { NamespaceFinder } from '../../transports/engines/kubernetes/find.ts';
import { readKubeLogs } from '../../transports/engines/kubernetes/logs.ts';
import { kubeNaming, names } from '../../transports/engines/kubernetes/naming.ts';
import { PodFollower } from '../../transports/engines/kubernetes/pods.ts';
import { podView } from '../../transports/engines/kubernetes/views.ts';
import { fakeApiServer } from '../support/kubernetes/fake-api.ts';
import { until } from '../support/until.ts';

test('what an API server says of the end of a process may be anything: it ends, and nothing is thrown', async () => {
  for (const said of ['', 'no JSON', '{"status":', '[]', 'null', '{"status":"Failure"}']) {
    const process = new RemoteProcess();
    process.heard(1, Buffer.from('output'));
    process.heard(3, Buffer.from(said));
    const ended = once(process, 'end');
    process.resume();
    await ended;
    assert.equal(process.code, undefined);
  }
});

test('the server is asked a bounded number of things at once, and who waits for others does not run out of time', async (t) => {
  const answers: ServerResponse[] = [];
  let most = 0;
  const { client, asked } = await fakeApiServer(t, (_request, response) => {
    answers.push(response);
    most = Math.max(most, answers.length);
  });
  const calls = Array.from({ length: 60 }, (_, n) => client.call('GET', `/${n}`, { timeoutMs: 20_000 }));
  await until(() => answers.length === 24);
  for (let n = 0; n < 60; n++) {
    await until(() => answers.length > 0);
    answers.shift()?.end('{}');
  }
  await Promise.all(calls);
  assert.equal(asked.length, 60);
  assert.ok(most <= 24, `${most} at once`);
  const silent = await fakeApiServer(t, () => {});
  // Time counts from when the call is made, not from when it was wanted.
  const slow = Array.from({ length: 24 }, () => client.call('GET', '/slow'));
  await until(() => answers.length === 24);
  const waiting = client.call('GET', '/waiting', { timeoutMs: 300 });
  const stop = new AbortController();
  const givenUp = client.call('GET', '/never', { signal: stop.signal });
  // One that was made at once, with more time, has run out.
  await assert.rejects(silent.client.call('GET', '/', { timeoutMs: 400 }));
  stop.abort();
  await assert.rejects(givenUp);
  for (const answer of answers.splice(0)) answer.end('{}');
  await Promise.all(slow);
  await until(() => answers.length === 1);
  answers[0]?.end('{"is":"in time"}');
  assert.equal(await waiting, '{"is":"in time"}');
  assert.ok(!asked.includes('/never'));
});

const naming = kubeNaming('test');
const namespace = (id: string) => ({
  metadata: { name: naming.namespace('u1', id), labels: naming.labelsOf('u1', id), resourceVersion: '1' },
});

/** A server with the namespaces of containers `a`, `b` and `c`, which answers once it may. */
async function heldServer(t: TestContext) {
  let open: () => void = () => {};
  const isOpen = new Promise<void>((resolve) => {
    open = resolve;
  });
  const server = await fakeApiServer(t, (request, response) => {
    const { searchParams } = new URL(request.url ?? '', 'http://x');
    const label = searchParams.get('labelSelector') ?? '';
    const field = searchParams.get('fieldSelector');
    const items = ['a', 'b', 'c']
      .filter((id) => !label.includes('container=') || label.endsWith(`container=${id}`))
      .map(namespace)
      .filter(({ metadata }) => field === null || field === `metadata.name=${metadata.name}`);
    void isOpen.then(() => response.end(JSON.stringify({ metadata: {}, items })));
  });
  return { ...server, open };
}

test('many who look for containers nobody knows of yet share a search, which begins after they asked', async (t) => {
  const { client, asked, open } = await heldServer(t);
  const finder = new NamespaceFinder(client, naming, () => undefined);
  const first = finder.find('a');
  await until(() => asked.length === 1);
  const others = ['b', 'c', 'missing', 'b'].map((id) => finder.find(id));
  open();
  assert.equal((await first)?.metadata.name, 'compute-u1-a');
  assert.deepEqual(
    (await Promise.all(others)).map((found) => found?.metadata.name),
    ['compute-u1-b', 'compute-u1-c', undefined, 'compute-u1-b'],
  );
  assert.equal(asked.length, 2);
  assert.match(asked[0] ?? '', /container%3Da&/);
});

test('a container whose namespace is known is found by one small read, also when that came from a watch', async (t) => {
  const { client, asked, open } = await heldServer(t);
  open();
  const cache = new ClusterCache();
  const finder = new NamespaceFinder(client, naming, () => cache);
  await finder.find('a');
  await finder.find('a');
  assert.match(asked[1] ?? '', /fieldSelector=metadata.name%3Dcompute-u1-a/);
  cache.listed('namespaces', [namespace('b')]);
  await finder.find('b');
  assert.doesNotMatch(asked[2] ?? '', /fieldSelector/, 'what is known may be old while no watch stands');
  cache.stands('namespaces', true);
  cache.changed('namespaces', 'ADDED', namespace('c'));
  assert.equal((await finder.find('c'))?.metadata.name, 'compute-u1-c');
  assert.match(asked[3] ?? '', /fieldSelector=metadata.name%3Dcompute-u1-c/);
  // One that is gone, and one that is told to be: both are asked for, and searched for when they are asked for again.
  finder.note('gone', 'compute-u1-gone');
  assert.equal(await finder.find('gone'), undefined);
  assert.equal(await finder.find('gone'), undefined);
  assert.doesNotMatch(asked.at(-1) ?? '', /fieldSelector/);
  cache.changed('namespaces', 'DELETED', namespace('c'));
  assert.equal(cache.namespaceOf('c'), undefined);
});

test('events that come twice count once', () => {
  const cache = new ClusterCache();
  for (const resource of ['namespaces', 'pods', 'services'] as const) cache.stands(resource, true);
  for (const type of ['ADDED', 'ADDED', 'MODIFIED', 'MODIFIED']) cache.changed('namespaces', type, namespace('a'));
  assert.equal(cache.read()?.namespaces.length, 1);
  for (let n = 0; n < 2; n++) cache.changed('namespaces', 'DELETED', namespace('a'));
  assert.equal(cache.read()?.namespaces.length, 0);
});

test('containers that are named are read with the pods beside them, and with no others', () => {
  const cache = new ClusterCache();
  for (const resource of ['namespaces', 'pods', 'services'] as const) cache.stands(resource, true);
  const { metadata } = namespace('a');
  const annotations = { 'troupe.dev/pod': 'container-4' };
  cache.listed('namespaces', [{ metadata: { ...metadata, annotations } }, namespace('b')]);
  const podOf = (id: string, name: string) => ({
    metadata: { name, namespace: naming.namespace('u1', id), uid: name },
  });
  cache.listed('pods', [
    ...[2, 3, 4, 5, 6].map((number) => podOf('a', `container-${number}`)),
    podOf('b', 'container-0'),
  ]);
  const found = cache.read(['a', 'missing']);
  assert.deepEqual(
    found?.namespaces.map((one) => one.metadata.name),
    ['compute-u1-a'],
  );
  assert.deepEqual(found?.pods.map((one) => one.metadata.name).sort(), ['container-3', 'container-4', 'container-5']);
});

const pod = (uid: string, phase: string) => ({
  metadata: { name: 'container-0', namespace: 'n', uid, resourceVersion: '1' },
  status: { phase },
});

test('a pod is followed by the watch, and asked for where the watch has nothing to say', async () => {
  const cache = new ClusterCache();
  let asked = 0;
  let present: string | undefined = 'one';
  const ask = async () => {
    asked += 1;
    return present === undefined ? undefined : podView.parse(pod(present, 'Asked'));
  };
  const follow = () => new PodFollower({ cache: () => cache, ask }, podView.parse(pod('one', 'Pending')));
  cache.stands('pods', true);
  cache.listed('pods', [pod('one', 'Pending')]);
  const follower = follow();
  const heard = async (type: string, object: unknown): Promise<string | undefined> => {
    const next = follower.next();
    cache.changed('pods', type, object);
    return (await next)?.status.phase;
  };
  assert.equal(await heard('MODIFIED', pod('one', 'Running')), 'Running');
  assert.equal(asked, 0);
  // Another of the name is not this one, whatever the watch still knows.
  assert.equal(await heard('MODIFIED', pod('two', 'Running')), 'Asked');
  assert.equal(asked, 1);
  present = undefined;
  assert.equal(await heard('DELETED', pod('two', 'Running')), undefined);
  present = 'two';
  assert.equal(await follower.next(), undefined);
  // No watch: it asks.
  cache.stands('pods', false);
  present = 'one';
  const before = asked;
  assert.equal((await follow().next())?.status.phase, 'Asked');
  const without = new PodFollower({ cache: () => undefined, ask }, podView.parse(pod('one', 'Pending')));
  assert.equal((await without.next())?.status.phase, 'Asked');
  assert.equal(asked, before + 2);
});

test('a log is read until a time, which the server does not know of, and not by output', async (t) => {
  const stamp = (second: number, digits = '') => `2026-01-31T12:00:0${second}${digits}Z`;
  const lines = [stamp(1), stamp(2, '.5'), stamp(3), stamp(2, '.9'), stamp(4)].map((at, n) => `${at} line ${n}\n`);
  const { client, asked } = await fakeApiServer(t, (_request, response) => void response.end(lines.join('')));
  const pod = podView.parse({
    metadata: { name: names.pod, uid: 'u', resourceVersion: '1' },
    status: { containerStatuses: [{ name: names.container, state: { running: {} } }] },
  });
  const containers = { mustFind: async () => ({ namespace: 'n', pod: names.pod }), pods: { of: async () => pod } };
  const read = async (more: Partial<LogOptions>) => {
    const options = { tail: Number.POSITIVE_INFINITY, follow: false, signal: new AbortController().signal, ...more };
    const texts: string[] = [];
    for await (const batch of readKubeLogs(client, containers, 'c', options))
      texts.push(...batch.map((line) => line.slice(line.indexOf(' ') + 1)));
    return texts;
  };
  assert.deepEqual(await read({ until: stamp(3) }), ['line 0', 'line 1']);
  assert.deepEqual(await read({ until: '2026-01-31T13:00:02.6+01:00', since: stamp(1) }), ['line 1']);
  assert.deepEqual(await read({ until: stamp(1) }), []);
  assert.equal((await read({})).length, 5);
  assert.ok(asked.every((path) => !path.includes('until')));
  await assert.rejects(read({ stream: 'stderr' }), { code: 'refused' });
  await assert.rejects(read({ until: 'tomorrow' }), { code: 'refused' });
});
