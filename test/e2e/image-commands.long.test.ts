/** `troupe image push`, `ls` and `rm`: from an archive to a container, with the registry that comes along. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { imageArchitecture } from '../../cmd/node/platform-facts.ts';
import { type TarEntry, tar } from '../../lib/tar.ts';
import { atTerminal } from '../support/client/terminal.ts';
import { deleteAll, logIn, type RunningPlatform, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { docker, skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { client, startRegistry } from '../support/engine/troupe-registry.ts';
import { skipWithout } from '../support/require.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { freePort, tempDir } from '../support/temp.ts';

const PASSWORDS: Readonly<Record<string, string>> = {
  ann: 'the password of ann',
  bob: 'the password of bob',
  eve: 'that of eve',
};
const skip = skipWithoutDocker() || skipWithout('docker', 'docker-registry', 'script', 'skopeo');

const pushedSchema = z.strictObject({
  image: z.string(),
  digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  blobs_sent: z.number(),
  blobs_present: z.number(),
});

describe('images of one’s own at the command line', { skip, timeout: 900_000 }, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let folder: string;
  let platform: RunningPlatform & { readonly data: string; readonly env: Readonly<Record<string, string>> };
  let host: string;
  let saved: string;

  before(async () => {
    folder = await tempDir(cleanup);
    const [image, database] = [await tinyImage(), await testDatabase()];
    cleanup.after(() => database.close());
    const data = join(folder, 'data');
    const env = { DATABASE_URL: database.url, DEFAULT_IMAGE: image, REGISTRY: 'auto', REGISTRY_USER_MB: '40' };
    platform = { ...(await startPlatform({ data, env })), data, env };
    cleanup.after(() => platform.stop());
    const keyFile = join(folder, 'key.pub');
    await writeFile(keyFile, `${publicKey()}\n`);
    host = `registry.${platform.ready.domain}`;
    for (const [name, password] of Object.entries(PASSWORDS)) {
      const added = await troupe(['users', 'add', name, '--data', data], { env, input: password });
      assert.equal(added.code, 0, added.stderr);
      const login = await as(name, 'login', '--data', data, '--user', name, '--password-stdin');
      assert.equal(login.code, 0, login.stderr);
      assert.equal((await as(name, 'key', 'add', keyFile)).code, 0);
    }
    saved = join(folder, 'saved.tar');
    const ran = await client('docker', ['--host', process.env.DOCKER_HOST ?? '', 'save', '-o', saved, image]);
    assert.equal(ran.code, 0, ran.output);
  });

  after(async () => {
    for (const name of ['ann/app:1', 'ann/layout:1'])
      await docker()
        .call('DELETE', `/images/${host}/${name}`, { query: { noprune: true } })
        .catch(() => {});
    for (const end of ends) await end();
  });

  function as(name: string, ...words: string[]) {
    const env = { XDG_CONFIG_HOME: join(folder, name), TROUPE_URL: '', TROUPE_TOKEN: '', NO_COLOR: '1' };
    return troupe(words, { env, input: `${PASSWORDS[name]}\n` });
  }
  async function push(name: string, ...words: string[]) {
    const { code, stdout, stderr } = await as(name, 'image', 'push', ...words, '--json');
    assert.equal(code, 0, stderr);
    return pushedSchema.parse(JSON.parse(stdout));
  }
  const listed = async (name: string) => {
    const { code, stdout, stderr } = await as(name, 'image', 'ls', '-q');
    assert.equal(code, 0, stderr);
    return stdout.split('\n').filter((line) => line.startsWith(host));
  };
  const runs = async (image: string) => {
    const made = await as('ann', 'run', 'own', '--image', image);
    assert.equal(made.code, 0, made.stderr);
    const said = await as('ann', 'exec', 'own', '--', 'cat', '/etc/passwd');
    assert.equal(said.code, 0, said.stderr);
    const { auth, compute } = platform.ready.urls;
    await deleteAll(compute, await logIn(auth, 'ann', PASSWORDS.ann ?? ''));
  };
  /** The archive as an OCI layout, packed by tar as people do it. */
  const layout = async () => {
    const [dir, file] = [join(folder, 'layout'), join(folder, 'layout.tar')];
    const copied = await client('skopeo', ['--insecure-policy', 'copy', `docker-archive:${saved}`, `oci:${dir}:x`]);
    assert.equal(copied.code, 0, copied.output);
    const packed = await client('tar', ['-cf', file, '-C', dir, '.']);
    assert.equal(packed.code, 0, packed.output);
    return file;
  };

  test('an archive of docker save is pushed, once, and runs', async () => {
    const first = await push('ann', saved, 'app:1');
    assert.equal(first.image, `${host}/ann/app:1`);
    assert.ok(first.blobs_sent >= 2);
    assert.equal(first.blobs_present, 0);
    const again = await push('ann', saved, `${host}/ann/app:1`);
    assert.deepEqual(again, { ...first, blobs_sent: 0, blobs_present: first.blobs_sent });
    assert.deepEqual(await listed('ann'), [`${host}/ann/app:1`]);
    assert.deepEqual(await listed('bob'), []);
    await runs(first.image);
  });

  test('an OCI layout is pushed, and runs', async () => {
    const { image, blobs_sent } = await push('ann', await layout(), 'layout:1');
    assert.ok(blobs_sent >= 2);
    await runs(image);
    const removed = await as('ann', 'image', 'rm', 'layout:1', '--json');
    assert.deepEqual(JSON.parse(removed.stdout), { image });
    assert.ok(!(await listed('ann')).includes(image));
  });

  test('rm removes one tag, and no other of the same image', async () => {
    await push('ann', saved, 'two:1');
    await push('ann', saved, 'two:2');
    const tagged = z.array(z.object({ image: z.string(), bytes: z.int().optional(), own_bytes: z.int().optional() }));
    const wide = await as('ann', 'image', 'ls', '--wide', '--json');
    const shown = tagged.parse(JSON.parse(wide.stdout)).filter(({ image }) => image.startsWith(`${host}/ann/two:`));
    assert.ok(
      shown.length === 2 && shown.every(({ bytes = 0, own_bytes }) => bytes > 1e6 && own_bytes === 0),
      wide.stdout,
    );
    const removed = await as('ann', 'image', 'rm', 'two:1');
    assert.equal(removed.code, 0, removed.stderr);
    const left = await listed('ann');
    assert.ok(left.includes(`${host}/ann/two:2`) && !left.includes(`${host}/ann/two:1`), left.join());
    const again = await as('ann', 'image', 'rm', 'two:1');
    assert.equal(again.code, 5, again.stderr);
    const untagged = await as('ann', 'image', 'rm', 'two');
    assert.equal(untagged.code, 2, untagged.stderr);
  });

  test('an image of another registry is copied, once, and runs; what does not fit is refused', async () => {
    const other = await startRegistry(cleanup, { port: await freePort() });
    const from = `${other.host}/shop/web:7`;
    const to = ['copy', '--dest-tls-verify=false', `docker-archive:${saved}`, `docker://${from}`];
    const put = await client('skopeo', ['--insecure-policy', ...to]);
    assert.equal(put.code, 0, put.output);
    const copy = async (...words: string[]) => {
      const { code, stdout, stderr } = await as('ann', 'image', 'import', ...words, '--json');
      assert.equal(code, 0, stderr);
      return pushedSchema.parse(JSON.parse(stdout));
    };
    const first = await copy(from);
    assert.equal(first.image, `${host}/ann/web:7`);
    assert.ok(first.blobs_sent >= 1);
    const again = await copy(`${other.host}/shop/web@${first.digest}`, 'web:7');
    const parts = first.blobs_sent + first.blobs_present;
    assert.deepEqual(again, { ...first, blobs_sent: 0, blobs_present: parts });
    await runs(first.image);
    const library = await as('ann', 'image', 'import', from, 'library/web:7');
    assert.equal(library.code, 4, library.stderr);
    assert.match(library.stderr, /You may not push at library\/web/);
    const none = await as('ann', 'image', 'import', `${other.host}/shop/none:1`);
    assert.equal(none.code, 5, none.stderr);
    assert.match(none.stderr, /has no .*shop\/none:1 that anybody may pull.*--username NAME/);
    const named = await as('ann', 'image', 'import', `${other.host}/shop/none:1`, '--username', 'bob');
    assert.equal(named.code, 5, named.stderr);
    assert.match(named.stderr, /shop\/none:1 that bob may pull/);
  });

  test('a stranger is refused', async () => {
    await push('ann', saved, 'app:1');
    for (const words of [
      ['push', saved, 'ann/app:2'],
      ['rm', 'ann/app:1'],
      ['push', saved, 'library/app:1'],
      ['catalog', 'node'],
    ]) {
      const { code, stderr } = await as('bob', 'image', ...words);
      assert.equal(code, 4, stderr);
      assert.match(stderr, /You may not .*push.* at (ann\/app|library\/(app|node))/);
    }
    assert.ok((await listed('ann')).includes(`${host}/ann/app:1`));
  });

  test('a push past what a user may have is refused with what to do, and a removed image makes room', async () => {
    /** An archive with one layer that does not get smaller. */
    const archiveOf = async (bytes: number) => {
      const layer = tar([{ kind: 'file', path: 'data', mode: 0o644, data: randomBytes(bytes) }]);
      const config = { architecture: imageArchitecture(), os: 'linux', rootfs: { type: 'layers', diff_ids: [] } };
      const manifest = [{ Config: 'c.json', Layers: ['l.tar'] }];
      const entries = { 'manifest.json': JSON.stringify(manifest), 'c.json': JSON.stringify(config), 'l.tar': layer };
      const file = join(folder, 'large.tar');
      const entry = ([path, data]: [string, string | Buffer]): TarEntry => ({
        ...{ kind: 'file', path, mode: 0o644 },
        data: Buffer.from(data),
      });
      await writeFile(file, tar(Object.entries(entries).map(entry)));
      return file;
    };
    const { auth } = platform.ready.urls;
    const session = await logIn(auth, 'bob', PASSWORDS.bob ?? '');
    const usage = async () => {
      const { json } = await request('GET', `${auth}/api/registry/usage`, { token: session });
      return z.strictObject({ used_bytes: z.number(), limit_bytes: z.number() }).parse(json);
    };
    const facts = await request('GET', `${auth}/api/platform/facts`, { token: session });
    assert.equal(z.object({ images_mb: z.number() }).parse(facts.json.limits).images_mb, 40);
    assert.deepEqual(await usage(), { used_bytes: 0, limit_bytes: 40 * 2 ** 20 });
    const large = await archiveOf(25 * 2 ** 20);
    await push('bob', large, 'large:1');
    const { used_bytes: used } = await usage();
    assert.ok(used > 25 * 2 ** 20 && used < 26 * 2 ** 20, String(used));
    const other = await archiveOf(24 * 2 ** 20);
    const refused = await as('bob', 'image', 'push', other, 'other:1');
    assert.equal(refused.code, 4, refused.stderr);
    assert.match(
      refused.stderr,
      /The images of bob hold 2\d,[0-9,]+ of 41,943,040 bytes, and this takes 2\d,[0-9,]+ more\. .*`troupe image rm NAME:TAG`/,
    );
    const removed = await as('bob', 'image', 'rm', 'large:1');
    assert.equal(removed.code, 0, removed.stderr);
    await push('bob', other, 'other:1');
    assert.deepEqual(await listed('bob'), [`${host}/bob/other:1`]);
    const table = (await as('bob', 'image', 'ls', '--wide')).stdout;
    assert.match(table, /^NAME\tSOURCE\tSIZE\tALONE\tIMAGE\n[\s\S]*other:1\tregistry\t24\.0 MiB\t24\.0 MiB\t/);
    const env = { XDG_CONFIG_HOME: join(folder, 'bob'), NO_COLOR: '1' };
    const person = await atTerminal(['image', 'ls'], { folder, env });
    cleanup.after(person.stop);
    assert.equal(await person.ended, 0, person.screen());
    assert.match(person.screen(), /SIZE +ALONE +IMAGE/);
    assert.match(person.screen(), /Your images hold 24\.\d MiB of 40\.0 MiB in the registry\./);
  });

  test('the images of a removed user go with them, and a new user of the name has none', async () => {
    await push('eve', saved, 'app:1');
    await push('eve', saved, 'app:2');
    await push('eve', await layout(), 'eve/deep/er:1');
    await push('ann', saved, 'app:1');
    assert.equal((await listed('eve')).length, 3);
    const operator = (words: string[], input = '') =>
      troupe([...words, '--data', platform.data], { env: platform.env, input });
    const removed = await operator(['users', 'remove', 'eve', '--yes']);
    assert.equal(removed.stdout, 'eve is removed, with all that was theirs.\n', removed.stderr);
    const added = await operator(['users', 'add', 'eve'], PASSWORDS.eve);
    assert.equal(added.code, 0, added.stderr);
    const login = await as('eve', 'login', '--data', platform.data, '--user', 'eve', '--password-stdin');
    assert.equal(login.code, 0, login.stderr);
    assert.deepEqual(await listed('eve'), []);
    const gone = await as('eve', 'image', 'rm', 'eve/deep/er:1');
    assert.equal(gone.code, 5, gone.stderr);
    assert.ok((await listed('ann')).includes(`${host}/ann/app:1`), 'those of others stay');
  });

  test('what is no image for this platform is refused with a sentence', async () => {
    const file = (path: string, value: unknown): TarEntry => ({
      ...{ kind: 'file', path, mode: 0o644 },
      data: Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)),
    });
    const other = imageArchitecture() === 'arm64' ? 'amd64' : 'arm64';
    const bad: readonly (readonly [TarEntry[] | string, RegExp])[] = [
      ['not a tar archive at all', /no tar archive|no archive of/],
      [[], /no archive of `docker save` and no OCI image layout/],
      [[file('manifest.json', [])], /has no image/],
      [[file('manifest.json', [{ Config: 'c.json', Layers: [] }])], /not whole: it has no c\.json/],
      [[file('manifest.json', '{')], /cannot be read/],
      [
        [
          file('manifest.json', [{ Config: 'c.json', Layers: ['l.tar'] }]),
          file('c.json', { architecture: other, os: 'linux' }),
        ],
        new RegExp(`The image is for linux/${other}, and the platform runs linux/${imageArchitecture()}`),
      ],
      [
        [
          file('manifest.json', [{ Config: 'c.json', Layers: ['l.tar'] }]),
          file('c.json', { architecture: imageArchitecture(), os: 'linux' }),
        ],
        /not whole: it has no l\.tar/,
      ],
    ];
    for (const [content, says] of bad) {
      const path = join(folder, 'bad.tar');
      await writeFile(path, typeof content === 'string' ? content.repeat(100) : tar(content));
      const { code, stderr } = await as('ann', 'image', 'push', path, 'bad:1');
      assert.match(stderr, says);
      assert.equal(code, 2, stderr);
    }
    assert.equal((await as('ann', 'image', 'push', join(folder, 'none.tar'), 'bad:1')).code, 5);
    const cut = join(folder, 'cut.tar');
    await writeFile(cut, (await readFile(saved)).subarray(0, 100_000));
    assert.equal((await as('ann', 'image', 'push', cut, 'bad:1')).code, 2);
    assert.equal((await as('ann', 'image', 'push', saved, 'Bad Name')).code, 2);
    assert.ok(!(await listed('ann')).some((name) => name.includes('bad')));
  });

  // test/kubernetes/catalog.long.test.ts builds another and sends it.
  const testSlowly = process.env.TROUPE_TEST_SLOW === '1' ? test : () => undefined;
  testSlowly(
    'the administrator builds an image of the platform, which comes into library',
    {
      skip: skipWithout('mmdebstrap'),
      timeout: 900_000,
    },
    async () => {
      const env = { XDG_CONFIG_HOME: join(folder, 'admin'), NO_COLOR: '1' };
      const words = ['login', '--data', platform.data, '--user', 'admin', '--password-stdin'];
      const login = await troupe(words, { env, input: `${platform.ready.admin.password}\n` });
      assert.equal(login.code, 0, login.stderr);
      const sent = await troupe(['image', 'catalog', 'base', '--json'], { env });
      assert.equal(sent.code, 0, sent.stderr);
      const [base] = z
        .looseObject({ images: z.array(z.looseObject({ image: z.string(), sent: z.boolean() })) })
        .parse(JSON.parse(sent.stdout)).images;
      assert.equal(base?.sent, true);
      assert.ok(base.image.startsWith(`${host}/library/base:`));
      assert.ok((await listed('ann')).includes(base.image));
      const again = await troupe(['image', 'catalog', 'base', '--json'], { env });
      assert.match(again.stdout, /"sent":false/);
    },
  );
});
