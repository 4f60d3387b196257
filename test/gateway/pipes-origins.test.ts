/** Web servers as Debian has them take several requests at a time on a connection, and everybody gets their own answer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ORIGINS, startOrigin } from '../support/gateway/origins.ts';
import { openProxy, rawClient } from '../support/gateway/proxy.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { skipWithout } from '../support/require.ts';

failOnLeaks();

const CLIENTS = 12;
const ROUNDS = 25;

for (const [name, programs] of Object.entries(ORIGINS)) {
  test(`${name} answers each client of a shared connection`, { skip: skipWithout(...programs) }, async (t) => {
    const origin = await startOrigin(t, name);
    const proxy = await openProxy(t, origin.port, { pipelined: [origin.port] });
    const clients = await Promise.all(Array.from({ length: CLIENTS }, () => rawClient(t, proxy.port)));
    for (let round = 0; round < ROUNDS; round++) {
      for (const [i, client] of clients.entries()) client.send(`GET /${round}/${i} HTTP/1.1\r\nHost: a.test\r\n\r\n`);
      for (const [i, client] of clients.entries()) await client.sees(new RegExp(`\\[GET /${round}/${i} 0\\]`));
    }
    for (const [i, client] of clients.entries()) {
      const answers = [...client.text().matchAll(/\[GET \/(\d+)\/(\d+) 0\]/g)].map(([, round, of]) => `${round}/${of}`);
      assert.deepEqual(
        answers,
        Array.from({ length: ROUNDS }, (_, round) => `${round}/${i}`),
      );
    }
    assert.deepEqual([...new Set(proxy.log.map(({ status }) => status))], [200]);
  });
}
