/** Lines of the access log: the combined format, no secrets, and no line that a client wrote itself. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessLine } from '../../cmd/observability/access-log.ts';
import type { AccessEntry } from '../../proto/gateway/traffic.ts';

const ENTRY: AccessEntry = {
  address: '192.0.2.1',
  method: 'GET',
  host: 'a.test',
  target: '/x',
  minor: 1,
  status: 200,
  bytes: 12,
  ms: 3.06,
  upstream: '10.0.0.1:80',
  isBroken: false,
  referer: '',
  userAgent: '',
};
const line = (entry: Partial<AccessEntry>) => accessLine({ ...ENTRY, ...entry }, new Date('2026-11-01T09:08:07Z'));

test('a line is the combined format, and behind it host, time and origin', () => {
  assert.equal(
    line({ referer: 'https://b.test/', userAgent: 'curl/8' }),
    '192.0.2.1 - - [01/Nov/2026:09:08:07 +0000] "GET /x HTTP/1.1" 200 12 "https://b.test/" "curl/8" a.test 3.1ms 10.0.0.1:80',
  );
  assert.match(line({ upstream: '', host: '' }), /"GET \/x HTTP\/1\.1" 200 12 "-" "-" - 3\.1ms -$/);
});

test('secrets of a query are left out, however the name is written, in the target and in the referer', () => {
  for (const name of [
    'token',
    'Token',
    '%74oken',
    't%6Fken',
    'access_token',
    'id_token',
    'api_key',
    'password',
    'client_secret',
  ])
    for (const query of [
      `?${name}=hush`,
      `?a=1&${name}=hush&b=2`,
      `?a=1;${name}=hush`,
      `?${name}=hush=hush`,
      `??&${name}=hush`,
    ]) {
      const shown = line({ target: `/x${query}`, referer: `https://b.test/${query}` });
      assert.doesNotMatch(shown, /hush/, query);
      assert.match(shown, /=\.\.\./);
    }
  assert.match(line({ target: '/x?a=1&tokens=2&b' }), /\?a=1&tokens=2&b /);
});

test('secrets are left out also where an address with a query is itself a value', () => {
  const target = `/enter?${new URLSearchParams({ host: 'a.test', path: '/x?a=1&access_token=hush' })}`;
  assert.match(line({ target }), /\?host=a\.test&path=\.\.\. /);
  assert.match(line({ target: '/enter?path=%2Fx%3Fa%3D1' }), /\?path=%2Fx%3Fa%3D1 /);
});

test('no byte of a client ends a line or a quotation, or reaches a terminal', () => {
  const bytes = Array.from({ length: 256 }, (_, code) => String.fromCharCode(code)).join('');
  for (const field of ['method', 'target', 'referer', 'userAgent', 'host', 'address'] as const) {
    const shown = line({ [field]: `a${bytes}b` });
    assert.match(shown, /^[ -~]*$/, field);
    assert.equal(shown.match(/"/g)?.length, 6, field);
    assert.ok(
      shown.includes('\\x0a') && shown.includes('\\x22') && shown.includes('\\x5c') && shown.includes('\\x1b'),
      field,
    );
  }
});
