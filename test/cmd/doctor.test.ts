import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { doctorContainersDomain, doctorRunning } from '../../cmd/cli/doctor.ts';
import { announce } from '../../cmd/config/running.ts';
import { tempDir } from '../support/temp.ts';

test('doctor says of a service that is not well what is wrong', async (t) => {
  const data = await tempDir(t);
  const problem = 'container engine: it cannot be reached';
  const bodies: Record<string, string> = {
    '/auth/healthz': '{"status":"ok"}',
    '/compute/healthz': JSON.stringify({ status: 'degraded', problems: [problem, 'database: away'] }),
    '/net/healthz': 'Bad Gateway',
  };
  const server = createServer((request, response) => {
    const body = bodies[request.url ?? ''] ?? '{"status":"ok"}';
    response.writeHead(body.includes('"ok"') ? 200 : 503).end(body);
  });
  t.after(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  const url = (name: string) => `http://127.0.0.1:${address.port}/${name}`;
  const names = ['auth', 'compute', 'net', 'monitor', 'notify'] as const;
  const [auth, compute, net, monitor, notify] = names.map(url);
  assert.ok(auth && compute && net && monitor && notify);
  t.after(announce(data, { urls: { auth, compute, net, monitor, notify } }));
  const found = await doctorRunning(data, '127.0.0.1', 0);
  assert.deepEqual(
    found.map(({ name, ok }) => [name, ok]),
    names.map((name) => [`Platform, ${name}`, name !== 'compute' && name !== 'net']),
  );
  assert.equal(found[1]?.what, `runs at ${compute}, but is not well: ${problem}; database: away`);
  assert.equal(found[2]?.what, `runs at ${net}, but is not well: its health page answers 503`);
});

test('doctor says where pages of containers can set cookies that the platform gets, and what to do', () => {
  const found = (PLATFORM_DOMAIN?: string, CONTAINERS_DOMAIN?: string) =>
    doctorContainersDomain({ PLATFORM_DOMAIN, CONTAINERS_DOMAIN });
  const usual = found('cloud.example.com');
  assert.deepEqual([usual.ok, usual.optional], [false, true]);
  assert.match(usual.what, /^compute\.cloud\.example\.com: .* cookies for cloud\.example\.com, which cloud/);
  assert.match(usual.how ?? '', /^set CONTAINERS_DOMAIN to a domain of its own/);
  assert.match(found('cloud.example.com', 'apps.example.com').what, /cookies for example\.com, which cloud/);
  assert.match(found('Cloud.Example.com', 'apps.cloud.example.com').what, /cookies for cloud\.example\.com, /);
  for (const one of [found('cloud.example.com', 'example-apps.net'), found('example.com', 'example-apps.com'), found()])
    assert.deepEqual([one.ok, one.how], [true, undefined], one.what);
});
