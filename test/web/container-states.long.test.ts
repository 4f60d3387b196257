/** A container that is starting and one that has failed, each looked at by axe-core and beside its kept picture. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { logIn, request } from '../support/cluster/platform.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { suiteCleanup } from '../support/suite.ts';
import { until } from '../support/until.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { PASSWORD } from '../support/web/served-console.ts';
import { slowRegistry } from '../support/web/slow-registry.ts';

describe('a container that does not run', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let console: OpenedConsole;
  let token: string;
  let registry: string;
  let key: number;

  const ask = async (method: string, path: string, body?: object) => {
    const { status, json } = await request(method, `${console.platform.ready.urls.compute}${path}`, { token, body });
    assert.equal(status, 200, JSON.stringify(json));
    return json;
  };
  /** The id of a container of an image of `repository`, which has come to `status`. */
  const made = async (name: string, repository: string, status: string): Promise<string> => {
    const image = `${registry}/ann/${repository}:1`;
    const { id } = await ask('POST', '/compute/containers', { name, ssh_key_ids: [key], image });
    const reached = async () => (await ask('GET', `/compute/containers/${id}`)).status === status;
    await until(reached, { what: `${name} is ${status}`, timeoutMs: 60_000 });
    return String(id);
  };

  before(async () => {
    registry = await slowRegistry(cleanup);
    console = await openConsole(cleanup, { REGISTRY_HOST: registry });
    const { platform } = console;
    token = await logIn(platform.ready.urls.auth, 'ann', PASSWORD);
    key = Number((await ask('POST', '/compute/ssh-keys', { name: 'k', public_key: publicKey() })).id);
    await console.open('/containers', 'Log in to troupe.localhost');
    await console.logIn();
    await console.heading('Containers').waitFor();
  });

  test('yet says what it waits for', async () => {
    const id = await made('slow', 'slow/app', 'pending');
    await console.open(`/containers/${id}`, 'slow');
    await console.text(/has not answered for \d+ s/).waitFor({ timeout: 60_000 });
    assert.deepEqual(await console.look('state-starting'), []);
  });

  test('any more says why, and what to do', async () => {
    const id = await made('missing', 'missing', 'failed');
    await console.open(`/containers/${id}`, 'missing');
    await console.text(/cannot be pulled/).waitFor();
    assert.deepEqual(await console.look('state-failed'), []);
  });

  test('is told apart from others in the list', async () => {
    await console.open('/containers', 'Containers');
    await console.page.getByRole('article', { name: 'missing' }).getByText('Failed').waitFor();
    await console.page.getByRole('article', { name: 'slow' }).getByText('Waiting').waitFor();
    assert.deepEqual(await console.look('state-not-running'), []);
  });

  test('the browser complained about nothing', () => {
    assert.deepEqual(console.complaints, []);
  });
});
