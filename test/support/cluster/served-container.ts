/** A platform with one container whose page is served at its hostname over TLS. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { Agent, get } from 'node:https';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { startBox } from '../clients/container.ts';
import { tinyImage } from '../engine/docker-client.ts';
import { inReverse } from '../suite.ts';
import { type Cleanup, tempDir } from '../temp.ts';
import { deleteAll, logIn, request, startPlatform, troupe } from './platform.ts';

/** What the page says. */
export const PAGE = 'served\n';

/** Starts it with `more` in its environment. `config`: the environment of commands that are logged in. */
export async function servedContainer(t: Cleanup, more: Record<string, string> = {}) {
  const cleanup = inReverse(t);
  const data = await tempDir(cleanup);
  const platform = await startPlatform({ data, env: { DEFAULT_IMAGE: await tinyImage(), ...more } });
  cleanup.after(() => platform.stop());
  const { urls, admin } = platform.ready;
  const token = await logIn(urls.auth, admin.username, admin.password ?? '');
  cleanup.after(() => deleteAll(urls.compute, token));
  const { id } = await startBox(urls.compute, token, data);
  const rule = { port: 443, target_port: 8080, tls: 'platform' };
  const added = await request('POST', `${urls.compute}/compute/containers/${id}/ingress`, { token, body: rule });
  assert.equal(added.status, 200, JSON.stringify(added.json));
  const config = { XDG_CONFIG_HOME: join(data, 'config'), TROUPE_URL: '', TROUPE_TOKEN: '' };
  const login = ['login', urls.https, '--ca', join(data, 'ca.pem'), '--user', 'admin', '--password-stdin'];
  assert.equal((await troupe(login, { env: config, input: `${admin.password}\n` })).code, 0);
  const serve = 'mkdir /tmp/w; echo served > /tmp/w/index.html; httpd -p 8080 -h /tmp/w';
  assert.equal((await troupe(['exec', id, '--', serve], { env: config })).code, 0);
  const ca = await readFile(join(data, 'ca.pem'));
  /** The page at a hostname, by the platform's authority. */
  const ask = (host: string): Promise<string> => {
    const agent = new Agent({ ca, servername: host });
    return new Promise<string>((resolve, reject) => {
      const options = { host: '127.0.0.1', port: new URL(urls.https).port, agent, headers: { host } };
      get(options, (answer) => resolve(text(answer))).on('error', reject);
    }).finally(() => agent.destroy());
  };
  return { platform, data, token, id, config, ask };
}
