/** What the platform asks a registry for: the names of repositories, in pages, and no more than it bears. */
import assert from 'node:assert/strict';
import { createServer, type ServerResponse } from 'node:http';
import { type TestContext, test } from 'node:test';
import { registryCatalog } from '../../transports/clients/registry/catalog.ts';
import { registryRemoval } from '../../transports/clients/registry/removal.ts';

type Answer = (path: URL, response: ServerResponse) => void;

/** A registry of these repositories, with the tag `one` unless a digit but 0 ends its name, in Distribution's order. `odd`: answers before it does. */
async function serve(t: TestContext, names: readonly string[], odd?: (url: URL) => Answer | undefined) {
  const asked: string[] = [];
  const known = new Set(names);
  const slashFirst = (name: string) => name.replaceAll('/', '\0');
  const order = [...names].sort((a, b) => (slashFirst(a) < slashFirst(b) ? -1 : 1));
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://registry');
    asked.push(`${request.method} ${url.pathname}`);
    const answer = odd?.(url);
    if (answer !== undefined) return answer(url, response);
    const say = (value: unknown) => void response.end(JSON.stringify(value));
    if (url.pathname === '/v2/_catalog') {
      const last = slashFirst(url.searchParams.get('last') ?? '');
      const rest = order.filter((name) => slashFirst(name) > last);
      return say({ repositories: rest.slice(0, Number(url.searchParams.get('n'))) });
    }
    const repository = /^\/v2\/(.*)\/tags\/list$/.exec(url.pathname)?.[1];
    if (repository !== undefined && !known.has(repository)) response.statusCode = 404;
    if (repository !== undefined) return say({ tags: /[1-9]$/.test(repository) ? null : ['one'] });
    response.setHeader('docker-content-digest', `sha256:${'a'.repeat(64)}`);
    response.statusCode = request.method === 'DELETE' ? 202 : 200;
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  t.after(() => void server.close());
  const at = server.address();
  if (at === null || typeof at === 'string') throw new Error('it has no port');
  const address = `127.0.0.1:${at.port}`;
  const place = { host: 'registry.cloud.test', address, token: async () => 'token' };
  const deleted = () => asked.filter((line) => line.startsWith('DELETE')).length;
  return { place, asked, deleted };
}

const many = (owner: string, count: number) =>
  Array.from({ length: count }, (_, i) => `${owner}/r${String(i).padStart(5, '0')}`);

test('the images of a removed user go, however many repositories others and the user have', async (t) => {
  const names = [...many('aaa', 11_000), ...many('ann', 1500), 'ann-b/app', 'annb/app'];
  const { place, asked, deleted } = await serve(t, names);
  assert.equal(await registryRemoval(place)('ann'), 'gone');
  assert.equal(deleted(), 150);
  assert.deepEqual(
    asked.filter((line) => line.startsWith('DELETE') && !line.startsWith('DELETE /v2/ann/')),
    [],
  );
  assert.ok(asked.filter((line) => line.endsWith('_catalog')).length <= 3, 'others are passed over');
});

test('a repository with others inside, which a page leaves out, goes as well', async (t) => {
  const inside = Array.from({ length: 1000 }, (_, i) => `ann/app/${String(i).padStart(4, '0')}`);
  // Distribution walks `0999` before `_layers`, and says that `ann/app` is before what it said already.
  const { place, deleted } = await serve(t, ['ann/app', ...inside], ({ pathname, searchParams }) => {
    if (pathname !== '/v2/_catalog') return undefined;
    const names = searchParams.get('last') === 'ann/' ? inside : [];
    return (_url, response) => void response.end(JSON.stringify({ repositories: names }));
  });
  assert.equal(await registryRemoval(place)('ann'), 'gone');
  assert.equal(deleted(), 101);
});

test('what cannot be listed to its end is not said to be gone', async (t) => {
  const same = Array.from({ length: 1000 }, () => 'ann/app');
  const { place } = await serve(t, [], ({ pathname }) => {
    if (pathname !== '/v2/_catalog') return undefined;
    return (_url, response) => void response.end(JSON.stringify({ repositories: same }));
  });
  await assert.rejects(registryRemoval(place)('ann'), /lists ann\/app again and again/);
});

test('a list without end is not read, though nobody said how long it is', async (t) => {
  const { place } = await serve(t, [], () => (_url, response) => {
    const part = `"${'x'.repeat(64 * 1024)}",`;
    response.write('{"repositories":[');
    const more = () => {
      while (response.writable && !response.destroyed) if (!response.write(part)) break;
    };
    response.on('drain', more);
    more();
  });
  await assert.rejects(registryRemoval(place)('ann'), /answers more than 1048576 bytes/);
});

test('repositories of others hide none of a user’s, of library, and of those that are public', async (t) => {
  const names = [...many('aaa', 11_000), 'library/node', 'zoe/app', 'zoe/tool/one', 'pub/app'];
  const { place } = await serve(t, names);
  const list = await registryCatalog({ ...place, open: async () => ['gone/app', 'pub/app'] }).list({
    userId: 'z',
    username: 'zoe',
  });
  assert.deepEqual(
    list.map((reference) => reference.slice('registry.cloud.test/'.length)),
    ['library/node:one', 'pub/app:one', 'zoe/app:one', 'zoe/tool/one:one'],
  );
});
