/** Text as the console shows it: logs with colours, and figures. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressOfPort, addressOfSite } from '../../client/index.ts';
import {
  ago,
  bytesOf,
  clockTime,
  count,
  dateOf,
  dayOf,
  decimal,
  exactTime,
  megabytes,
  minuteTime,
  percent,
  span,
  spanExactly,
} from '../../web/core/format.ts';
import { byName } from '../../web/core/name-order.ts';
import { isOwnPath } from '../../web/core/own-path.ts';
import { plainText, styled } from '../../web/screens/container/log/sgr.ts';

const ESC = '\u001b';

test('colours of a log become classes, and everything else that is no text is dropped', () => {
  assert.deepEqual(styled('plain'), [{ text: 'plain', look: '' }]);
  assert.deepEqual(styled(`a ${ESC}[31;1mred${ESC}[0m b`), [
    { text: 'a ', look: '' },
    { text: 'red', look: 'r bold' },
    { text: ' b', look: '' },
  ]);
  assert.deepEqual(styled(`${ESC}[92mgreen${ESC}[39m ${ESC}[2mdim${ESC}[22m`), [
    { text: 'green', look: 'g' },
    { text: ' ', look: '' },
    { text: 'dim', look: 'dim' },
  ]);
  for (const [line, text] of [
    [`${ESC}]52;c;cm0gLXJmIC8=\u0007after`, 'after'],
    [`${ESC}]8;;https://evil.test${ESC}\\link${ESC}]8;;${ESC}\\`, 'link'],
    [`${ESC}[2J${ESC}[1;1Hmoved`, 'moved'],
    [`${ESC}[?25lhidden`, 'hidden'],
    ['nul\u0000 \u202eturned\u2066', 'nul turned'],
    [`cut short${ESC}`, 'cut short'],
    ['<b>not markup</b>', '<b>not markup</b>'],
  ] as const)
    assert.equal(plainText(line), text, JSON.stringify(line));
});

test('figures have units, and the unit of what they are of', () => {
  const mib = 1024 ** 2;
  assert.equal(megabytes(512), '512 MB');
  assert.equal(megabytes(1536), '1.5 GB');
  assert.equal(bytesOf(318 * mib, 512 * mib), '318 of 512 MB');
  assert.equal(bytesOf(1.94 * 1024 * mib, 5 * 1024 * mib), '1.9 of 5 GB');
  assert.deepEqual([0, 7.4, 999.5, 1_234, 65_536, 1_234_567].map(count), [
    ...['0', '7', '1,000', '1,234', '65,536', '1,234,567'],
  ]);
  assert.deepEqual([0, 0.04, 0.25, 2, 1_234.56, -1.5].map(decimal), ['0', '0', '0.3', '2', '1,234.6', '-1.5']);
  assert.deepEqual([0, 0.125, 1].map(percent), ['0 %', '13 %', '100 %']);
});

test('figures and times are those that the runtime writes for English', () => {
  for (let n = 0; n < 2_000; n++) {
    const value = n * n * 0.37;
    assert.equal(count(value), new Intl.NumberFormat('en', { maximumFractionDigits: 0 }).format(value));
    assert.equal(decimal(value), new Intl.NumberFormat('en', { maximumFractionDigits: 1 }).format(value));
    const time = Date.UTC(2026, 0, n, n, n);
    assert.equal(minuteTime(time), written({ dateStyle: 'medium', timeStyle: 'short' }, time));
    assert.equal(dateOf(time), written({ dateStyle: 'medium' }, time));
    assert.equal(dayOf(time), written({ weekday: 'long', day: 'numeric', month: 'long' }, time));
    assert.equal(clockTime(time), written({ hour: '2-digit', minute: '2-digit' }, time));
  }
});

const written = (how: Intl.DateTimeFormatOptions, time: number) => new Intl.DateTimeFormat('en-GB', how).format(time);

test('an exact time has the zone of the browser', (t) => {
  const { TZ } = process.env;
  t.after(() => {
    if (TZ === undefined) delete process.env.TZ;
    else process.env.TZ = TZ;
  });
  for (const [zone, text] of [
    ['UTC', '31 Jan 2030, 12:00:07 UTC'],
    ['Europe/Berlin', '31 Jan 2030, 13:00:07 UTC+1'],
    ['Asia/Kolkata', '31 Jan 2030, 17:30:07 UTC+5:30'],
    ['America/St_Johns', '31 Jan 2030, 08:30:07 UTC-3:30'],
  ] as const) {
    process.env.TZ = zone;
    assert.equal(exactTime(Date.UTC(2030, 0, 31, 12, 0, 7)), text);
  }
});

test('containers are in the order of their names without regard to case, equal ones by their ids', () => {
  const list = [
    { name: 'web', id: '2' },
    { name: 'Build', id: '1' },
    { name: 'api', id: '3' },
    { name: 'Web', id: '1' },
  ];
  assert.deepEqual(
    list.sort(byName).map(({ name }) => name),
    ['api', 'Build', 'Web', 'web'],
  );
});

test('times are short, and exact where they are long', () => {
  assert.deepEqual([0, 59_999, 60_000, 3_600_000, 86_400_000, 6 * 86_400_000].map(span), [
    ...['0 s', '59 s', '1 min', '1 h', '1 day', '6 days'],
  ]);
  assert.deepEqual([0, 161_000, 3_600_000, 90_061_000].map(spanExactly), ['0 s', '2 min 41 s', '1 h', '1 d 1 h']);
  assert.equal(ago(1_000_000, 1_030_000), 'now');
  assert.equal(ago(1_000_000, 1_000_000 + 720_000), '12 min');
});

test('a link of a notification never leads out of the console', () => {
  const page = 'https://cloud.test:8443/activity';
  for (const link of ['/containers/abc', '/hostnames?x=//evil.test']) assert.ok(isOwnPath(link, page), link);
  const foreign = ['', '//evil.test/', '/\\evil.test', '/\t/evil.test', 'javascript:alert(1)', 'https://evil.test/'];
  for (const link of foreign) assert.ok(!isOwnPath(link, page), link);
});

test('a page of a container is called by the port by which the platform is called, or that the gateway tells', () => {
  const seenFrom = (url: string, scheme: 'http' | 'https' = 'https') =>
    addressOfSite('web.compute.cloud.test', scheme, { page: new URL(url), gateway: { http: 8080, https: 8443 } });
  assert.equal(seenFrom('https://cloud.test/'), 'https://web.compute.cloud.test/');
  assert.equal(seenFrom('https://cloud.test:8443/'), 'https://web.compute.cloud.test:8443/');
  assert.equal(seenFrom('http://troupe.localhost:8080/'), 'https://web.compute.cloud.test:8443/');
  assert.equal(seenFrom('http://troupe.localhost:8080/', 'http'), 'http://web.compute.cloud.test:8080/');
  // The ports of a gateway behind something else are not those that people call: who calls its own is not behind it.
  assert.equal(seenFrom('https://cloud.test/', 'http'), 'http://web.compute.cloud.test/');
  assert.equal(seenFrom('https://cloud.test:8443/', 'http'), 'http://web.compute.cloud.test:8080/');
  const usual = { page: new URL('https://cloud.test/'), gateway: { http: 80, https: 443 } };
  assert.equal(addressOfSite('web.cloud.test', 'http', usual), 'http://web.cloud.test/');
  // A login by SSH called no address, and a platform of before tells no ports.
  const bySsh = { page: undefined, gateway: { http: 8080, https: 443 } };
  assert.equal(addressOfSite('web.cloud.test', 'http', bySsh), 'http://web.cloud.test:8080/');
  assert.equal(addressOfSite('web.cloud.test', 'https', bySsh), 'https://web.cloud.test/');
  for (const gateway of [undefined, null])
    assert.equal(addressOfSite('web.cloud.test', 'http', { page: undefined, gateway }), 'http://web.cloud.test/');
});

test('an open port is a page on 80 and 443, and where the platform ends TLS', () => {
  const from = { page: new URL('https://cloud.test:8443/'), gateway: { http: 8080, https: 8443 } };
  const of = (port: number, tls?: 'container' | 'platform') => addressOfPort('web.cloud.test', { port, tls }, from);
  assert.deepEqual(
    [of(80), of(443), of(443, 'platform'), of(8090, 'platform')],
    [
      'http://web.cloud.test:8080/',
      'https://web.cloud.test:8443/',
      'https://web.cloud.test:8443/',
      'https://web.cloud.test:8090/',
    ],
  );
  assert.deepEqual([of(8090), of(8090, 'container')], [undefined, undefined]);
});
