/** Ambiguous requests from outside: each hazard's are refused in words, or reach the origin as exactly what they say (H01 to H10, H13). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AMBIGUOUS, numbered, type Seen } from '../support/gateway/ambiguous-requests.ts';
import { httpOrigin, openProxy } from '../support/gateway/proxy.ts';
import { exchange } from '../support/gateway/raw-exchange.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

const HAZARDS: Readonly<Record<string, string>> = {
  H01: 'a length beside a coding is refused',
  H02: 'a coding that is not exactly chunked is refused',
  H03: 'lengths that are not one plain number are refused',
  H04: 'names of fields that are none are refused',
  H05: 'control characters and line ends that are not CRLF are refused',
  H06: 'folded lines are refused',
  H07: 'chunks that two readers may read in two ways are refused; trailers are dropped',
  H08: 'first lines that are not exactly method, target and version are refused',
  H09: 'hosts that are none, or two, are refused',
  H10: 'too much is refused before it is kept',
  H11: 'bodies where few expect them are passed on whole; expectations are met or refused',
  H13: 'fields of the hop and forged ones change nothing; paths are passed on as they are',
};

for (const [hazard, what] of Object.entries(HAZARDS)) {
  test(`${hazard}: ${what}`, async (t) => {
    const seen: Seen[] = [];
    const origin = await httpOrigin(t, (incoming, response) => {
      let length = 0;
      incoming.on('error', () => {});
      incoming.on('data', (chunk: Buffer) => {
        length += chunk.length;
      });
      incoming.on('end', () => {
        seen.push([incoming.method ?? '', incoming.url ?? '', length]);
        response.end('ok');
      });
    });
    const proxy = await openProxy(t, origin);
    const requests = AMBIGUOUS.filter((request) => request.hazard === hazard);
    assert.ok(requests.length >= 5, `${hazard} has ${requests.length} requests`);
    for (const [index, request] of requests.entries()) {
      const { bytes, refused, forwarded } = numbered(request, `${hazard}-${index}`);
      const label = JSON.stringify(bytes.length > 300 ? `${bytes.slice(0, 300)}...` : bytes);
      seen.length = 0;
      proxy.log.length = 0;
      const text = await exchange(proxy.port, bytes);
      // Of answers that were begun, the last one counts.
      const statuses = [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
      assert.deepEqual(
        statuses.filter((status) => status !== 100),
        refused === undefined ? forwarded.map(() => 200) : [refused],
        label,
      );
      assert.deepEqual(seen, forwarded, label);
      if (refused !== undefined) {
        assert.match(text, /\r\nConnection: close\r\n\r\nThe .*\.\n$/, label);
        assert.equal(proxy.log.at(-1)?.status, refused, label);
        if (!request.begins) assert.equal(proxy.log[0]?.upstream, '', label);
      }
    }
  });
}
