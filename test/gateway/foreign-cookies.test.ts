/** Cookies that pages of containers leave at the platform's hosts, more than a head has room for. */
import assert from 'node:assert/strict';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { withoutForeignCookies } from '../../transports/wire/h1/foreign-cookies.ts';
import { RequestReader } from '../../transports/wire/h1/head-reader.ts';
import { hostOf, OWN, openGuarded } from '../support/gateway/guards.ts';
import { httpOrigin, openProxy } from '../support/gateway/proxy.ts';
import { exchange } from '../support/gateway/raw-exchange.ts';

const HOST = 'cloud.test';
const isOurs = (host: string) => host === HOST;
/** What the page of a container sets, in a loop. */
const bomb = (count: number, size = 3900) =>
  Array.from({ length: count }, (_, at) => `c${at}=${'a'.repeat(size)}`).join('; ');
const head = (host: string, cookies: string, more = '') =>
  `POST /x HTTP/1.1\r\nHost: ${host}\r\nAccept: */*\r\nCookie: ${cookies}\r\n${more}Content-Length: 4\r\n\r\n`;

test('of the cookies at a host of the platform those stay that no page of another host can set', () => {
  const left = (whole: string) => withoutForeignCookies(whole, isOurs).text;
  assert.equal(
    left(
      'GET / HTTP/1.1\r\nHost: Cloud.TEST.:8443\r\nCookie: a=b; __Host-troupe=x=y;c; token=z; =; __Secure-a=b\r\nA: b\r\n',
    ),
    'GET / HTTP/1.1\r\nHost: Cloud.TEST.:8443\r\nCookie: __Host-troupe=x=y; token=z\r\nA: b\r\n',
  );
  const begin = `GET / HTTP/1.1\r\nHost: ${HOST}\r\n`;
  assert.equal(left(`${begin}cookie: a=b\r\nCookie: c=d\r\n`), begin);
  // A cookie, or a line, that is not whole yet.
  assert.equal(left(`${begin}Cookie: a=b; __Ho`), `${begin}Cookie: __Ho`);
  assert.equal(left(`${begin}Cookie: a=b\r`), `${begin}Cookie: a=b\r`);
  assert.equal(left(`${begin}Coo`), `${begin}Coo`);
  // Of several tokens none counts: two are as good as all.
  assert.equal(left(`${begin}Cookie: token=1; token=2; token=3\r\n`), `${begin}Cookie: token=1; token=2\r\n`);
  for (const other of ['GET / HTTP/1.1\r\nHost: app.test\r\nCookie: a=b\r\n', 'GET / HTTP/1.1\r\nCookie: a=b\r\n'])
    assert.equal(left(other), other);
});

test('a head with foreign cookies is read however its bytes are cut, and what follows it is left', () => {
  const own = '__Host-troupe=own';
  const cookies = `${bomb(3)}; ${own}; ${bomb(20)}`;
  const bytes = Buffer.from(`${head(HOST, cookies)}body${head(HOST, 'a=b')}`, 'latin1');
  for (const size of [37, 512, 4096, 16_383, 16_384, 16_385, 65_536, bytes.length]) {
    const reader = new RequestReader(isOurs);
    let rest: Buffer | undefined;
    for (let at = 0; rest === undefined; at += size) {
      assert.ok(at < bytes.length, `${size}`);
      const piece = bytes.subarray(at, at + size);
      const found = reader.push(piece, 0);
      if (found === undefined) continue;
      assert.ok('head' in found, `${size}`);
      assert.deepEqual(
        found.head.fields.filter(({ name }) => name === 'cookie').map(({ value }) => value),
        [own],
        `${size}`,
      );
      rest = Buffer.concat([piece.subarray(found.next), bytes.subarray(at + size)]);
    }
    assert.equal(rest.toString('latin1', 0, 8), 'bodyPOST', `${size}`);
    assert.ok(reader.isEmpty);
  }
});

test('a visitor with foreign cookies gets the platform’s page; what still is too large says how to get rid of them', async (t) => {
  const seen: string[] = [];
  const origin = await httpOrigin(t, async (request, response) => {
    seen.push(`${request.headers.cookie} ${await text(request)}`);
    response.end('the page');
  });
  const { port } = await openProxy(t, origin, { platformHost: HOST });
  const ask = (host: string, cookies: string, more = 'Connection: close\r\n') =>
    exchange(port, `${head(host, cookies, more)}body`);
  const own = '__Host-troupe=own; token=mine';
  assert.match(await ask(HOST, `${bomb(40)}; ${own}`), /^HTTP\/1\.1 200 [\s\S]*the page$/);
  assert.match(await ask(HOST, `${own}; ${bomb(150)}`), /^HTTP\/1\.1 200 /);
  assert.deepEqual(seen, [`${own} body`, `${own} body`]);
  // Past all that browsers keep, and in one cookie.
  for (const cookies of [bomb(300), bomb(1, 20_000)])
    assert.match(await ask(HOST, cookies), /^HTTP\/1\.1 431 [\s\S]*\r\nClear-Site-Data: "cookies"\r\n/);
  // Not for what has another reason, nor at hosts that are not the platform's: those pages answer for themselves.
  for (const answer of [
    await ask(HOST, 'a=b', `X: ${'x'.repeat(17_000)}\r\n`),
    await ask('app.compute.cloud.test', bomb(40)),
  ]) {
    assert.match(answer, /^HTTP\/1\.1 431 /);
    assert.doesNotMatch(answer, /Clear-Site-Data/);
  }
  assert.equal(seen.length, 2);
});

test('a whole gateway knows which hosts are the platform’s', async (t) => {
  const origin = await httpOrigin(t, (_, response) => response.end('of a container'));
  const { ports } = await openGuarded(t, origin);
  const ask = (host: string) => exchange(ports.http, `${head(host, bomb(40), 'Connection: close\r\n')}body`);
  for (const host of [HOST, `auth.${HOST}`, `registry.${HOST}`])
    assert.match(await ask(host), /^HTTP\/1\.1 (?!431)\d{3} /, host);
  assert.match(await ask(hostOf(OWN)), /^HTTP\/1\.1 431 /);
});
