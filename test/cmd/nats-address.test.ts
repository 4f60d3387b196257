import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { CliError } from '../../cmd/config/cli-error.ts';
import { readEnvironment } from '../../cmd/config/config.ts';
import { natsAddress } from '../../cmd/node/bus.ts';
import { tempDir } from '../support/temp.ts';

const address = (env: Record<string, string>) => natsAddress(readEnvironment({ NATS_INSECURE: 'allow', ...env }));

test('without NATS_URL there is none', () => {
  assert.equal(address({ NATS_TOKEN: 'x' }), undefined);
});

test('NATS_URL is read as NATS’s own tools read it', () => {
  for (const [url, expected] of Object.entries({
    'nats://broker': { servers: ['broker:4222'] },
    broker: { servers: ['broker:4222'] },
    'broker:4333': { servers: ['broker:4333'] },
    'nats://127.0.0.1:80/': { servers: ['127.0.0.1:80'] },
    'nats://[::1]:4333': { servers: ['[::1]:4333'] },
    'nats://a:1, nats://b:2,c': { servers: ['a:1', 'b:2', 'c:4222'] },
    'nats://ann:p%40ss@broker': { servers: ['broker:4222'], user: 'ann', password: 'p@ss' },
    'nats://t0ken@broker': { servers: ['broker:4222'], token: 't0ken' },
    'tls://broker': { servers: ['broker:4222'], tls: {} },
    'nats://a,tls://b': { servers: ['a:4222', 'b:4222'], tls: {} },
  }))
    assert.deepEqual(address({ NATS_URL: url }), expected, url);
});

test('credentials and TLS files come beside it, and win', async (t) => {
  const folder = await tempDir(t);
  const file = async (name: string) => {
    await writeFile(join(folder, name), `text of ${name}`);
    return join(folder, name);
  };
  assert.deepEqual(
    address({
      NATS_URL: 'nats://ann:old@broker',
      NATS_USER: 'bob',
      NATS_PASSWORD: 'new',
      NATS_TOKEN: 'token',
      NATS_CREDS: await file('creds'),
      NATS_CA: await file('ca'),
      NATS_CERT: await file('cert'),
      NATS_KEY: await file('key'),
    }),
    {
      servers: ['broker:4222'],
      user: 'bob',
      password: 'new',
      token: 'token',
      credentials: 'text of creds',
      tls: { ca: 'text of ca', cert: 'text of cert', key: 'text of key' },
    },
  );
  assert.throws(
    () => address({ NATS_URL: 'broker', NATS_CREDS: join(folder, 'none') }),
    (error) => error instanceof CliError && /^NATS_CREDS is .*none, which cannot be read/.test(error.message),
  );
});

test('what is no address is refused, and not shown', () => {
  for (const url of [
    'http://broker',
    'tls:///secret',
    'nats://a b',
    'nats://secret@x:99999',
    'nats://x/path',
    'x,,y',
    'nats://%zz:s@x',
  ])
    assert.throws(
      () => address({ NATS_URL: url }),
      (error) =>
        error instanceof CliError &&
        /NATS_URL: must be one or more of nats:/.test(error.message) &&
        !error.message.includes(url),
      url,
    );
  assert.throws(() => address({ NATS_URL: 'x', NATS_REPLICAS: '6' }), /NATS_REPLICAS: must be 1 to 5/);
});

test('a broker on another machine needs credentials or TLS, unless told otherwise', () => {
  const start = (url: string, more: Record<string, string> = {}) =>
    natsAddress(readEnvironment({ NATS_URL: url, ...more }));
  for (const url of [
    'nats://broker',
    '10.0.0.7:4222',
    'nats://127.0.0.1,nats://[2001:db8::1]:4222',
    'nats://localhost.example',
  ])
    assert.throws(
      () => start(url),
      (error) =>
        error instanceof CliError && /without credentials and without TLS.*NATS_INSECURE=allow/.test(error.message),
      url,
    );
  for (const url of [
    '127.0.0.1',
    'nats://127.7.7.7:1,localhost',
    'nats://[::1]',
    'nats://u:p@broker',
    't@broker',
    'tls://broker',
  ])
    assert.ok(start(url), url);
  assert.ok(start('broker', { NATS_TOKEN: 'x' }));
  assert.ok(start('broker', { NATS_INSECURE: 'allow' }));
});
