/** CONTAINERS_DOMAIN: containers under a domain of their own, which for browsers is another site than the platform's. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { request, troupe } from '../support/cluster/platform.ts';
import { PAGE, servedContainer } from '../support/cluster/served-container.ts';
import { skipWithoutDocker } from '../support/engine/docker-client.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const DOMAIN = 'apps.localhost';

test('containers have names below a domain of their own', {
  skip: skipWithoutDocker(),
  timeout: 900_000,
}, async (t) => {
  const { platform, token, id, ask } = await servedContainer(t, { CONTAINERS_DOMAIN: DOMAIN });
  const { urls } = platform.ready;
  const container = `${urls.compute}/compute/containers/${id}`;
  const call = async (method: string, url: string, body?: unknown) => {
    const reply = await request(method, url, { token, ...(body === undefined ? {} : { body }) });
    assert.equal(reply.status, 200, JSON.stringify(reply.json));
    return reply.json;
  };
  const host = z.string().parse((await call('GET', container)).hostname);
  assert.equal(host, `${id}.${DOMAIN}`);
  const facts = await call('GET', `${urls.auth}/api/platform/facts`);
  assert.equal(facts.containers_domain, DOMAIN);
  await until(async () => (await ask(host).catch(() => '')) === PAGE, { what: 'the page', timeoutMs: 60_000 });
  await assert.rejects(ask(`${id}.compute.${platform.ready.domain}`), /unrecognized.name/i);
  const mapped = await request('POST', `${urls.net}/api/domain-mappings`, {
    token,
    body: { domain: `x.${DOMAIN}`, container_id: id, target_port: 80 },
  });
  assert.equal(mapped.status, 400, JSON.stringify(mapped.json));
});

test('a domain for containers that is the platform’s own is refused', async (t) => {
  const data = await tempDir(t);
  for (const domain of ['cloud.test', 'test', 'auth.cloud.test']) {
    const { code, stderr } = await troupe(['up', '--domain', 'cloud.test', '--data', data, '--port-offset', 'auto'], {
      env: { CONTAINERS_DOMAIN: domain, DOCKER_HOST: 'unix:///nowhere' },
    });
    assert.equal(code, 1);
    assert.match(stderr, /CONTAINERS_DOMAIN must have no name of the platform in it/);
  }
});
