import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CliError } from '../../cmd/cli-error.ts';
import { portsWith, readEnvironment } from '../../cmd/config.ts';

test('an empty environment gives the defaults', () => {
  const environment = readEnvironment({ JWT_SECRET: '', UNRELATED: 'x' });
  assert.equal(environment.ADMIN_USERNAME, 'admin');
  assert.equal(environment.SESSION_TTL, 86_400);
  assert.equal(environment.JWT_SECRET, undefined);
  assert.equal(environment.HTTP_ADAPTER, 'auto');
});

test('good values are taken', () => {
  const environment = readEnvironment({
    SESSION_TTL: '90m',
    ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
    PLATFORM_DOMAIN: 'Cloud.Example.com',
    DATABASE_URL: 'postgres://u@h/db',
    DOCKER_HOST: 'unix:///run/docker.sock',
    REGISTRY_HOST: 'registry.example.com:5000',
    CONTAINER_SUBNETS: '172.20.0.0/16',
  });
  assert.equal(environment.SESSION_TTL, 5400);
  assert.equal(environment.PLATFORM_DOMAIN, 'cloud.example.com');
});

test('every bad value is named with what was expected, and never shown', () => {
  const bad: Record<string, [value: string, expected: RegExp]> = {
    DATABASE_URL: ['mysql://secret-1', /DATABASE_URL: must begin with postgres:\/\/ or postgresql:\/\//],
    JWT_SECRET: ['secret-2', /JWT_SECRET: must be at least 32 bytes/],
    ENCRYPTION_KEY: ['secret-3', /ENCRYPTION_KEY: must be 32 bytes in base64 or hex/],
    ADMIN_USERNAME: ['Secret 4', /ADMIN_USERNAME: must be 1 to 63 characters/],
    ADMIN_PASSWORD: ['secret5', /ADMIN_PASSWORD: must be at least 8 characters/],
    PLATFORM_DOMAIN: ['secret_6..x', /PLATFORM_DOMAIN: must be a host name/],
    DOCKER_HOST: ['ssh://secret-7', /DOCKER_HOST: must begin with unix:\/\/ or tcp:\/\//],
    CONTAINER_SUBNETS: ['8.8.8.0/24', /CONTAINER_SUBNETS: must be private addresses in the form 10\.192\.0\.0\/10/],
    SESSION_TTL: ['secret-8', /SESSION_TTL: must be a time such as 24h/],
    LOG_LEVEL: ['secret-9', /LOG_LEVEL: /],
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

test('ports move together, or are any free ones', () => {
  assert.deepEqual(portsWith(100), { auth: 7101, compute: 7102 });
  assert.deepEqual(portsWith(-1), { auth: 0, compute: 0 });
  assert.throws(() => portsWith(60_000), CliError);
});
