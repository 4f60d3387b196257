/** What an API server may do wrong, done by one of the test's own. */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { type TestContext, test } from 'node:test';
import { EngineError } from '../../proto/ports/engine.ts';
import { kubernetesEngine } from '../../transports/engines/kubernetes/engine.ts';
import { rejectsWith } from '../support/engine/conformance-suite.ts';
import { silentLog } from '../support/engine/docker-under-test.ts';
import { eventually } from '../support/engine/eventually.ts';
import { fakeApiServer as fake, status } from '../support/kubernetes/fake-api.ts';
import { until } from '../support/until.ts';

test('a call that is told 429 comes again after Retry-After', async (t) => {
  const at: number[] = [];
  const { client } = await fake(t, (_request, response) => {
    at.push(Date.now());
    if (at.length === 1) status(response, 429, 'TooManyRequests', 'later', { 'retry-after': '1' });
    else response.end('{"ok":true}');
  });
  assert.equal(await client.call('GET', '/version'), '{"ok":true}');
  assert.equal(at.length, 2);
  assert.ok((at[1] ?? 0) - (at[0] ?? 0) >= 990, 'too early');
});

test('a conflict and a failing server are tried again, what is not valid is not', async (t) => {
  let count = 0;
  const { client, asked } = await fake(t, (request, response) => {
    count += 1;
    if (request.url === '/invalid') return status(response, 422, 'Invalid', 'spec.x: Required value');
    if (count === 1) return status(response, 409, 'Conflict', 'the object has been modified');
    if (count === 2) return status(response, 500, 'InternalError', 'etcdserver: leader changed');
    if (count === 3) return status(response, 409, 'AlreadyExists', 'services "container" already exists');
    response.end('{}');
  });
  assert.equal(await client.call('PATCH', '/x', { body: {} }), '{}');
  assert.equal(asked.length, 4);
  await assert.rejects(client.call('PATCH', '/invalid', { body: {} }), (error: unknown) => {
    assert.ok(error instanceof EngineError);
    assert.equal(error.code, 'refused');
    assert.match(error.message, /spec\.x: Required value/);
    return true;
  });
  assert.equal(asked.length, 5);
});

test("a quota and a missing right reach the user as the cluster's sentence", async (t) => {
  const { client } = await fake(t, (request, response) =>
    status(response, 403, 'Forbidden', request.url === '/quota' ? 'exceeded quota: pods' : listing),
  );
  await assert.rejects(client.call('GET', '/quota'), /quota is used up: exceeded quota: pods/);
  await assert.rejects(client.call('GET', '/pods'), /lacks a right in the cluster .*cannot list resource "pods"/);
});

const listing =
  'pods is forbidden: User "system:serviceaccount:troupe:core" cannot list resource "pods" in API group ""';

test('what admission denies is refused for good, whatever words it uses', async (t) => {
  const denials = [
    'admission webhook "policy.example" denied the request: containers cannot run as root',
    'pods "container-0" is forbidden: cannot set blockOwnerDeletion',
    `pods "x" is forbidden: ValidatingAdmissionPolicy 'p' denied request: ${listing}`,
  ];
  const { client, asked } = await fake(t, (request, response) =>
    status(response, 403, 'Forbidden', denials[Number(request.url?.slice(1))] ?? ''),
  );
  for (const [at, sentence] of denials.entries()) {
    await assert.rejects(client.call('PATCH', `/${at}`, { body: {} }), (error: unknown) => {
      assert.ok(error instanceof EngineError);
      assert.equal(error.code, 'refused', sentence);
      assert.ok(error.message.includes(`The cluster does not allow it: ${sentence.slice(0, 30)}`), error.message);
      return true;
    });
  }
  assert.equal(asked.length, denials.length);
});

test('a server that was just started and has not read all roles is asked again, and not called short of rights', async (t) => {
  let isBack = false;
  let count = 0;
  const { client } = await fake(t, (request, response) => {
    if (request.url === '/away' && !isBack) return response.destroy();
    count += 1;
    if (request.url === '/never') return status(response, 403, 'Forbidden', listing);
    if (count === 1) return status(response, 403, 'Forbidden', listing);
    if (count === 2) {
      const unread = 'RBAC: clusterrole.rbac.authorization.k8s.io "troupe-containers" not found';
      return status(response, 403, 'Forbidden', `${listing}: ${unread}`);
    }
    response.end('{}');
  });
  await rejectsWith(client.call('GET', '/away', { timeoutMs: 2000 }), 'unavailable');
  isBack = true;
  assert.equal(await client.call('GET', '/pods'), '{}');
  assert.equal(count, 3);
  await assert.rejects(client.call('GET', '/never', { timeoutMs: 1000 }), /not ready for it yet: pods is forbidden/);
});

test('a redirect to another host is not followed, so no credentials go there', async (t) => {
  const other = await fake(t, (_request, response) => response.end('{}'));
  const { client } = await fake(t, (_request, response) => {
    response.writeHead(302, { location: `${other.url}/stolen` }).end();
  });
  await rejectsWith(client.call('GET', '/version'), 'unavailable');
  assert.deepEqual(other.asked, []);
});

test('an answer that is cut short, or no JSON, is no answer', async (t) => {
  const { client } = await fake(t, (request, response) => {
    if (request.url === '/html') {
      response.end('<html>');
      return;
    }
    response.writeHead(200, { 'content-length': '100' });
    response.write('{"items":[');
    setImmediate(() => response.destroy());
  });
  await rejectsWith(client.call('GET', '/cut', { timeoutMs: 3000 }), 'unavailable');
  const { z } = await import('zod');
  await rejectsWith(client.json('GET', '/html', z.unknown()), 'unavailable');
});

test('credentials that are not accepted any more are read anew, once', async (t) => {
  const seen: (string | undefined)[] = [];
  const { client, write } = await fake(t, (request, response) => {
    seen.push(request.headers.authorization);
    if (request.headers.authorization === 'Bearer second') response.end('{}');
    else status(response, 401, 'Unauthorized', 'Unauthorized');
  });
  await rejectsWith(client.call('GET', '/version'), 'unavailable');
  assert.equal(seen.length, 2);
  await write('second');
  assert.equal(await client.call('GET', '/version'), '{}');
});

const labelled = (id: string, resourceVersion: string) => ({
  metadata: {
    name: `compute-u1-${id}`,
    resourceVersion,
    labels: { 'troupe.dev/installation': 'test', 'troupe.dev/container': id },
  },
});
const line = (type: string, object: unknown): string => `${JSON.stringify({ type, object })}\n`;

/**
 * A server whose watch of namespaces does as `answer` says, by turns, from the first look on; that of pods stays silent.
 */
async function watched(t: TestContext, answer: (turn: number, response: ServerResponse) => void, silenceMs = 60_000) {
  let turn = 0;
  const seen: (string | undefined)[] = [];
  const server = await fake(t, (request, response) => {
    const url = new URL(request.url ?? '', 'http://x');
    if (url.searchParams.get('watch') !== 'true') {
      response.end(JSON.stringify({ metadata: { resourceVersion: '10' }, items: [] }));
      return;
    }
    response.writeHead(200).flushHeaders();
    if (!url.pathname.endsWith('/namespaces')) return;
    void until(() => seen.length > 0, { what: 'the first look' }).then(() => answer(turn++, response));
  });
  const engine = engineAt(server, silenceMs);
  engine.watch((id) => seen.push(id));
  t.after(() => engine.close());
  const versions = (): (string | null)[] =>
    server.asked
      .filter((url) => url.startsWith('/api/v1/namespaces') && url.includes('watch=true'))
      .map((url) => new URL(url, 'http://x').searchParams.get('resourceVersion'));
  const lists = (): number =>
    server.asked.filter((url) => url.startsWith('/api/v1/namespaces') && !url.includes('watch=true')).length;
  return { seen, versions, lists };
}

function engineAt({ kubeconfig }: { kubeconfig: string }, silenceMs = 60_000) {
  return kubernetesEngine({
    access: { kubeconfig },
    installation: 'test',
    baseImage: 'x/y:1',
    log: silentLog,
    watchTimes: { silenceMs, firstPauseMs: 5, longestPauseMs: 50 },
  });
}

test('the first look at all comes before any change, whichever watch stands last', async (t) => {
  let namespaces: ServerResponse | undefined;
  const server = await fake(t, (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://x');
    const list = () => response.end(JSON.stringify({ metadata: { resourceVersion: '10' }, items: [] }));
    if (searchParams.get('watch') === 'true') {
      response.writeHead(200).flushHeaders();
      if (pathname.endsWith('/namespaces')) {
        namespaces = response;
        response.write(line('ADDED', labelled('early', '11')));
      }
    } else if (pathname.endsWith('/pods')) void until(() => namespaces !== undefined).then(() => setTimeout(list, 100));
    else list();
  });
  const engine = engineAt(server);
  t.after(() => engine.close());
  const seen: (string | undefined)[] = [];
  engine.watch((id) => seen.push(id));
  await eventually(() => assert.ok(seen.length > 0, 'nothing is heard'));
  namespaces?.write(line('ADDED', labelled('later', '12')));
  await eventually(() => assert.ok(seen.includes('later'), 'not heard of'));
  assert.deepEqual(seen, [undefined, 'later']);
});

test('a watch that is closed again and again goes on where it was, bookmarks included', async (t) => {
  const { seen, versions, lists } = await watched(t, (turn, response) => {
    if (turn === 0) response.end(line('ADDED', labelled('a', '11')));
    else if (turn === 1) response.end(line('BOOKMARK', { metadata: { resourceVersion: '20' } }));
    else if (turn === 2) response.end(line('DELETED', labelled('b', '21')));
    else response.write(line('MODIFIED', labelled('c', '22')));
  });
  await eventually(() => assert.ok(seen.includes('c'), 'not heard of'));
  assert.deepEqual(versions(), ['10', '11', '20', '21']);
  assert.equal(lists(), 1);
  assert.deepEqual(
    seen.filter((id) => id !== undefined),
    ['a', 'b', 'c'],
  );
  assert.equal(seen.filter((id) => id === undefined).length, 1);
});

test('a version the server has forgotten (410) is found anew, and all is looked at', async (t) => {
  const { seen, lists } = await watched(t, (turn, response) => {
    if (turn === 0) {
      response.end(
        line('ERROR', { kind: 'Status', code: 410, reason: 'Expired', message: 'too old resource version' }),
      );
    } else response.write(line('ADDED', labelled('a', '11')));
  });
  await eventually(() => assert.ok(seen.includes('a'), 'not heard of'));
  assert.equal(lists(), 2);
  assert.ok(seen.includes(undefined));
});

test('a watch that is silent for long, or speaks nonsense, is begun anew', async (t) => {
  const { seen, versions } = await watched(
    t,
    (turn, response) => {
      if (turn === 0) response.end('not json at all\n{"type":1}\n');
      else if (turn === 3) response.write(line('ADDED', labelled('a', '11')));
    },
    300,
  );
  await eventually(() => assert.ok(seen.includes('a'), 'not heard of'));
  assert.ok(versions().length >= 4);
});
