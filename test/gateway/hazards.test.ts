/** Ambiguous requests from outside: each is refused in words, or reaches the origin as exactly what it says. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AMBIGUOUS, numbered, type Seen } from '../support/gateway/ambiguous-requests.ts';
import { httpOrigin, openProxy } from '../support/gateway/proxy.ts';
import { exchange } from '../support/gateway/raw-exchange.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

const RULES: Readonly<Record<string, string>> = {
  'length-and-coding': 'a length beside a coding is refused',
  coding: 'a coding that is not exactly chunked is refused',
  length: 'lengths that are not one plain number are refused',
  'field-names': 'names of fields that are none are refused',
  'field-values': 'control characters and line ends that are not CRLF are refused',
  folding: 'folded lines are refused',
  chunks: 'chunks that two readers may read in two ways are refused; trailers are dropped',
  'first-line': 'first lines that are not exactly method, target and version are refused',
  host: 'hosts that are none, or two, are refused',
  size: 'too much is refused before it is kept',
  body: 'bodies where few expect them are passed on whole; expectations are met or refused',
  hop: 'fields of the hop and forged ones change nothing; paths are passed on as they are',
};

for (const [subject, what] of Object.entries(RULES)) {
  test(`${subject}: ${what}`, async (t) => {
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
    const requests = AMBIGUOUS.filter((request) => request.subject === subject);
    assert.ok(requests.length >= 5, `${subject} has ${requests.length} requests`);
    for (const [index, request] of requests.entries()) {
      const { bytes, refused, forwarded } = numbered(request, `${subject}-${index}`);
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
