/** Which cookie counts, for whom. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HttpRequest } from '../../proto/ports/http.ts';
import { dashboardPages } from '../../transports/api/cors.ts';
import { isConsole, tokenOfCookies } from '../../transports/api/session-cookie.ts';

const DOMAIN = 'cloud.test';
const RULE = { name: 'token', isOwnPage: dashboardPages(DOMAIN) };

function request(headers: Readonly<Record<string, string>>): HttpRequest {
  return {
    method: 'GET',
    path: '/',
    query: '',
    remoteAddress: '127.0.0.1',
    header: (name) => headers[name],
    body: async () => new Uint8Array(),
    signal: new AbortController().signal,
  };
}

const CONSOLE = { host: 'cloud.test:8443', origin: 'https://cloud.test:8443', 'sec-fetch-site': 'same-origin' };
const DASHBOARD = { host: 'cloud.test:8443', origin: 'https://dash.cloud.test', 'sec-fetch-site': 'same-site' };
const TENANT = { host: 'cloud.test:8443', origin: 'https://x.compute.cloud.test', 'sec-fetch-site': 'same-site' };

const tokenOf = (headers: Readonly<Record<string, string>>, cookie: string, rule: typeof RULE | undefined = RULE) =>
  tokenOfCookies(request({ ...headers, cookie }), DOMAIN, rule);

test('the cookie of the console wins over the other, and neither counts when they differ', () => {
  assert.equal(tokenOf(CONSOLE, '__Host-troupe=a'), 'a');
  assert.equal(tokenOf(CONSOLE, '__Host-troupe=a; token=a'), 'a');
  assert.equal(tokenOf(CONSOLE, 'token=b; __Host-troupe=a'), undefined, 'a page of a container may have set it');
  assert.equal(tokenOf(CONSOLE, '__Host-token=b; __Host-troupe=a'), undefined);
  assert.equal(tokenOf(CONSOLE, '__Host-troupe=a; __Host-troupe=b'), undefined);
  assert.equal(tokenOf(CONSOLE, '__Host-troupe='), undefined);
  assert.equal(tokenOf(CONSOLE, '__host-troupe=a; troupe=b'), undefined);
  // Services that do not read the other pass over it.
  assert.equal(tokenOfCookies(request({ ...CONSOLE, cookie: 'token=b; __Host-troupe=a' }), DOMAIN, undefined), 'a');
});

test('the other cookie is for whom it was before', () => {
  assert.equal(tokenOf(DASHBOARD, 'token=b'), 'b');
  assert.equal(tokenOf({ host: 'cloud.test' }, 'token=b'), 'b', 'a program');
  assert.equal(tokenOf(DASHBOARD, '__Host-troupe=a'), undefined);
  assert.equal(tokenOf(DASHBOARD, '__Host-troupe=a; token=b'), undefined);
  for (const cookie of ['token=b', '__Host-troupe=a', '__Host-troupe=a; token=a'])
    assert.equal(tokenOf(TENANT, cookie), undefined, cookie);
});

test('on the machine itself http is enough, elsewhere it is not', () => {
  const at = (host: string, scheme: string, domain: string) =>
    isConsole(request({ host, origin: `${scheme}://${host}`, 'sec-fetch-site': 'same-origin' }), domain);
  assert.equal(at('troupe.localhost:7000', 'http', 'troupe.localhost'), true);
  assert.equal(at('troupe.localhost:8443', 'https', 'troupe.localhost'), true);
  assert.equal(at('cloud.test', 'http', 'cloud.test'), false);
  assert.equal(at('cloud.test', 'https', 'Cloud.Test'), true);
  assert.equal(at('cloud.test', 'https', 'other.test'), false);
  assert.equal(isConsole(request(CONSOLE), undefined), false, 'a service without a domain has no console');
});

test('a host that is none is no console', () => {
  for (const host of [
    '',
    ' ',
    'cloud.test, evil.test',
    'cloud.test@evil.test',
    'cloud.test/',
    'cloud.test\\@evil.test',
  ])
    for (const origin of ['https://evil.test', 'https://x.compute.cloud.test'])
      assert.equal(isConsole(request({ host, origin, 'sec-fetch-site': 'same-origin' }), DOMAIN), false, host);
});
