import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { CliError } from '../../cmd/config/cli-error.ts';
import { portsWith, readEnvironment } from '../../cmd/config/config.ts';
import { tempDir } from '../support/temp.ts';

test('an empty environment gives the defaults', () => {
  const environment = readEnvironment({ JWT_SECRET: '', UNRELATED: 'x' });
  assert.equal(environment.ADMIN_USERNAME, 'admin');
  assert.equal(environment.SESSION_TTL, 86_400);
  assert.equal(environment.JWT_SECRET, undefined);
  assert.equal(environment.HTTP_ADAPTER, 'auto');
  assert.equal(environment.HSTS, 'auto');
  const { CLUSTER_SHARDS, CLUSTER_WEIGHT, CLUSTER_HEARTBEAT } = environment;
  assert.deepEqual([CLUSTER_SHARDS, CLUSTER_WEIGHT, CLUSTER_HEARTBEAT], [undefined, 1, 1500]);
});

test('good values are taken', () => {
  const environment = readEnvironment({
    SESSION_TTL: '90m',
    CLUSTER_SHARDS: '4096',
    CLUSTER_WEIGHT: '2.5',
    CLUSTER_HEARTBEAT: '3s',
    ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
    PLATFORM_DOMAIN: 'Cloud.Example.com',
    DATABASE_URL: 'postgres://u@h/db',
    DOCKER_HOST: 'unix:///run/docker.sock',
    REGISTRY_HOST: 'registry.example.com:5000',
    WEBAUTHN_RP_ID: 'Example.com',
    WEBAUTHN_ORIGINS: 'https://console.example.com, http://localhost:5173',
    CONTAINER_SUBNETS: '172.20.0.0/16',
    EGRESS_ALLOW: '10.1.2.0/24, 192.168.7.7',
    PIPELINED_ORIGINS: '10.0.0.7:8080, [fd00::1]:80',
  });
  assert.equal(environment.SESSION_TTL, 5400);
  const { CLUSTER_SHARDS, CLUSTER_WEIGHT, CLUSTER_HEARTBEAT } = environment;
  assert.deepEqual([CLUSTER_SHARDS, CLUSTER_WEIGHT, CLUSTER_HEARTBEAT], [4096, 2.5, 3000]);
  assert.equal(environment.PLATFORM_DOMAIN, 'cloud.example.com');
  assert.equal(environment.WEBAUTHN_RP_ID, 'example.com');
  assert.deepEqual(environment.EGRESS_ALLOW, ['10.1.2.0/24', '192.168.7.7/32']);
  assert.deepEqual(environment.PIPELINED_ORIGINS, [
    { host: '10.0.0.7', port: 8080 },
    { host: 'fd00::1', port: 80 },
  ]);
  assert.deepEqual(environment.WEBAUTHN_ORIGINS, ['https://console.example.com', 'http://localhost:5173']);
});

test('every bad value is named with what was expected, and never shown', () => {
  const bad: Record<string, [value: string, expected: RegExp]> = {
    DATABASE_URL: ['mysql://secret-1', /DATABASE_URL: must begin with postgres:\/\/ or postgresql:\/\//],
    JWT_SECRET: ['secret-2', /JWT_SECRET: must be at least 32 bytes/],
    PIPELINED_ORIGINS: ['10.0.0.7:8080,secret-0', /PIPELINED_ORIGINS: must be at most 100 targets of routes/],
    ENCRYPTION_KEY: ['secret-3', /ENCRYPTION_KEY: must be 32 bytes in base64 or hex/],
    ADMIN_USERNAME: ['Secret 4', /ADMIN_USERNAME: must be 1 to 63 characters/],
    ADMIN_PASSWORD: ['secret5', /ADMIN_PASSWORD: must be at least 8 characters/],
    PLATFORM_DOMAIN: ['secret_6..x', /PLATFORM_DOMAIN: must be a host name/],
    DOCKER_HOST: ['tcp://secret-7', /DOCKER_HOST: tcp:\/\/ without TLS is for this machine only/],
    HSTS: ['secret-on', /HSTS: /],
    CONTAINER_SUBNETS: ['8.8.8.0/24', /CONTAINER_SUBNETS: must be private addresses in the form 10\.192\.0\.0\/10/],
    EGRESS_ALLOW: ['10.1.2.3/24', /EGRESS_ALLOW: must be at most 64 IPv4 networks or addresses such as/],
    CLUSTER_SHARDS: ['16385', /CLUSTER_SHARDS: must be 1 to 16384/],
    CLUSTER_WEIGHT: ['0.05', /CLUSTER_WEIGHT: must be 0\.1 to 100/],
    CLUSTER_HEARTBEAT: ['400ms', /CLUSTER_HEARTBEAT: must be 500ms to 5s/],
    SESSION_TTL: ['secret-8', /SESSION_TTL: must be a time such as 90m, 24h or 7d/],
    LOG_LEVEL: ['secret-9', /LOG_LEVEL: must be one of debug, info, warn, error/],
    REGISTRY_ADDRESS: ['http://secret-10:5000', /REGISTRY_ADDRESS: must be host:port/],
    REGISTRY_HOST: ['https://secret-10', /REGISTRY_HOST: must be a host name/],
    REGISTRY_S3_BUCKET: ['Secret-9 bucket', /REGISTRY_S3_BUCKET: must be the name of a bucket/],
    REGISTRY_S3_REGION: ['secret 9', /REGISTRY_S3_REGION: must be a region/],
    REGISTRY_S3_ENDPOINT: ['s3://secret-9', /REGISTRY_S3_ENDPOINT: must be http:/],
    REGISTRY_S3_ACCESS_KEY: ['secret 9', /REGISTRY_S3_ACCESS_KEY: must be 1 to 256 visible characters/],
    REGISTRY_S3_SECRET_KEY: ['secret 9', /REGISTRY_S3_SECRET_KEY: must be 1 to 256 visible characters/],
    REGISTRY_USER_MB: ['secret 10', /REGISTRY_USER_MB: must be a number of MiB, or 0 for no limit/],
    REGISTRY_ISSUER: ['secret 11', /REGISTRY_ISSUER: must be 1 to 256 visible characters/],
    REGISTRY_SIGNING_KEY: ['/nowhere/secret-12', /REGISTRY_SIGNING_KEY: .* path of a file with one: .*\(ENOENT\)/],
    WEBAUTHN_RP_ID: ['10.1.2.3', /WEBAUTHN_RP_ID: must be a name, not an address/],
    WEBAUTHN_ORIGINS: ['secret-10', /WEBAUTHN_ORIGINS: must be origins such as https:\/\/console\.example\.com/],
  };
  for (const [name, [value, expected]] of Object.entries(bad)) {
    assert.throws(
      () => readEnvironment({ [name]: value }),
      (error) => {
        assert.ok(error instanceof CliError);
        assert.match(error.message, expected);
        assert.ok(!error.message.includes(value), `${name} shows its value`);
        return true;
      },
    );
  }
  assert.throws(
    () => readEnvironment({ JWT_SECRET: 'short', SESSION_TTL: '1s' }),
    /JWT_SECRET[\s\S]*SESSION_TTL: must be at least a minute/,
  );
});

test('the key of registry tokens is given as a PEM or as the path of a file', async (t) => {
  const folder = await tempDir(t);
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  await writeFile(join(folder, 'key.pem'), pem, { mode: 0o600 });
  for (const value of [pem, pem.replaceAll('\n', '\\n'), join(folder, 'key.pem')]) {
    assert.ok(readEnvironment({ REGISTRY_SIGNING_KEY: value }).REGISTRY_SIGNING_KEY?.privateKey.equals(privateKey));
  }
  await writeFile(join(folder, 'empty.pem'), '');
  await writeFile(join(folder, 'large.pem'), pem + 'x'.repeat(300_000));
  const bad: [value: string, expected: RegExp][] = [
    [pem.slice(0, 60), /must hold one PEM private key/],
    [join(folder, 'empty.pem'), /must hold one PEM private key/],
    [join(folder, 'large.pem'), /this is no such file/],
    [folder, /this is no such file/],
    ['\0', /cannot be read|can be read/],
  ];
  for (const [value, expected] of bad) {
    assert.throws(
      () => readEnvironment({ REGISTRY_SIGNING_KEY: value }),
      (error) => {
        assert.ok(error instanceof CliError, String(error));
        assert.match(error.message, /REGISTRY_SIGNING_KEY: /);
        assert.match(error.message, expected);
        assert.ok(!error.message.includes(value));
        return true;
      },
    );
  }
  assert.equal(readEnvironment({}).REGISTRY_SIGNING_KEY, undefined);
  assert.equal(readEnvironment({}).REGISTRY_ISSUER, 'troupe');
  assert.equal(readEnvironment({}).REGISTRY_USER_MB, 20_480);
  assert.equal(readEnvironment({ REGISTRY_USER_MB: '0' }).REGISTRY_USER_MB, 0);
});

test('origins are taken only as browsers write them', () => {
  const bad = [
    ...['https://a.test/', 'https://A.test', 'https://a.test:443', 'https://ann@a.test', 'ftp://a.test', 'null', '*'],
    ...['https://*.a.test:x', 'https://a.test,', 'https://a.test;https://b.test', 'https://a.test?x', 'https://'],
  ];
  for (const WEBAUTHN_ORIGINS of bad) {
    assert.throws(() => readEnvironment({ WEBAUTHN_ORIGINS }), CliError, WEBAUTHN_ORIGINS);
  }
});

test('a mail server needs a sender, and neither is taken in another form', () => {
  const good = { SMTP_URL: 'smtp://ann:p%40ss@mail.example.com:2525', SMTP_FROM: 'Troupe <notices@example.com>' };
  assert.equal(readEnvironment(good).SMTP_URL, good.SMTP_URL);
  const bad = [
    ...[{ SMTP_URL: 'mail.example.com' }, { SMTP_URL: 'http://mail.example.com' }, { SMTP_URL: 'smtp://' }],
    ...[{ SMTP_URL: 'smtp://mail.example.com/x' }, { SMTP_URL: 'smtp://mail.example.com?tls=off' }],
    ...[{ SMTP_URL: 'smtp://a:%zz@mail.example.com' }, { SMTP_FROM: 'notices' }, { SMTP_FROM: '' }, { SMTP_URL: '' }],
    ...[{ SMTP_FROM: 'a@example.com\r\nBcc: b@example.com' }, { SMTP_INSECURE: 'yes' }],
  ];
  for (const one of bad) assert.throws(() => readEnvironment({ ...good, ...one }), CliError, JSON.stringify(one));
});

test('networks that webhooks may lead to are of either family', () => {
  const { WEBHOOK_ALLOW } = readEnvironment({ WEBHOOK_ALLOW: '10.1.2.0/24, fd00::/8' });
  assert.deepEqual(
    ['10.1.2.3', 'fd12::1', '10.1.3.1'].map((address) => WEBHOOK_ALLOW?.(address)),
    [true, true, false],
  );
  for (const bad of ['10.1.2.0/33', 'example.com', '10.0.0.0/8;fd00::/8'])
    assert.throws(() => readEnvironment({ WEBHOOK_ALLOW: bad }), /WEBHOOK_ALLOW: must be at most 64 networks/);
});

test('ports move together, or are any free ones', () => {
  assert.deepEqual(portsWith(100), {
    auth: 7101,
    compute: 7102,
    net: 7103,
    monitor: 7104,
    notify: 7105,
    http: 18_180,
    https: 8543,
    ssh: 2322,
  });
  assert.deepEqual(portsWith(-1), {
    ...{ auth: 0, compute: 0, net: 0, monitor: 0, notify: 0, http: 0, https: 0, ssh: 0 },
  });
  assert.throws(() => portsWith(60_000), CliError);
});
