/** CONTAINERS_DOMAIN: containers under a domain of their own, which for browsers is another site than the platform's. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { Agent, get } from 'node:https';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { z } from 'zod';
import { startBox } from '../support/clients/container.ts';
import { deleteAll, logIn, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const DOMAIN = 'apps.localhost';

test('containers have names below a domain of their own', {
  skip: skipWithoutDocker(),
  timeout: 240_000,
}, async (t) => {
  const ends: (() => unknown)[] = [];
  t.after(async () => {
    for (const end of ends) await end();
  });
  const data = await tempDir({ after: (end) => void ends.unshift(end) });
  const env = { CONTAINERS_DOMAIN: DOMAIN, DEFAULT_IMAGE: await tinyImage() };
  const platform = await startPlatform({ data, env });
  ends.unshift(() => platform.stop());
  const { urls, admin } = platform.ready;
  const token = await logIn(urls.auth, admin.username, admin.password ?? '');
  ends.unshift(() => deleteAll(urls.compute, token));
  const { id } = await startBox(urls.compute, token, data);
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
  await call('POST', `${container}/ingress`, { port: 443, target_port: 8080, tls: 'platform' });
  const serve = 'mkdir /tmp/w; echo served > /tmp/w/index.html; httpd -p 8080 -h /tmp/w';
  const config = { XDG_CONFIG_HOME: join(data, 'config'), TROUPE_URL: '', TROUPE_TOKEN: '' };
  const words = ['login', urls.https, '--ca', join(data, 'ca.pem'), '--user', 'admin', '--password-stdin'];
  assert.equal((await troupe(words, { env: config, input: `${admin.password}\n` })).code, 0);
  assert.equal((await troupe(['exec', id, '--', serve], { env: config })).code, 0);

  const ask = async (name: string): Promise<string> => {
    const agent = new Agent({ ca: await readFile(join(data, 'ca.pem')), servername: name });
    try {
      return await new Promise((resolve, reject) => {
        const options = { host: '127.0.0.1', port: new URL(urls.https).port, agent, headers: { host: name } };
        get(options, (answer) => resolve(text(answer))).on('error', reject);
      });
    } finally {
      agent.destroy();
    }
  };
  await until(async () => (await ask(host).catch(() => '')) === 'served\n', { what: 'the page', timeoutMs: 60_000 });
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
