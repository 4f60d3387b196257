import assert from 'node:assert/strict';
import { test } from 'node:test';
import { collector, hostName } from '../../cmd/config/options.ts';

test('host names are taken in any case, and nothing else is', () => {
  assert.equal(hostName('Cloud.Example.com'), 'cloud.example.com');
  for (const bad of ['', 'no name', '-a.com', 'a..com', 'http://a.com', 'a.com:80', `${'a'.repeat(201)}`])
    assert.throws(() => hostName(bad), /must be a host name/, bad);
});

test('a collector is host:port, or a URL', () => {
  for (const good of ['127.0.0.1:4317', 'logs:4317', '[::1]:4317', 'https://logs.example.com:4317', 'http://logs'])
    assert.equal(collector(good), good);
  for (const bad of ['', 'logs', 'logs:x', 'logs:99999', ':4317', 'ftp://logs:1', 'logs:4317/path'])
    assert.throws(() => collector(bad), /must be host:port/, bad);
});
