import assert from 'node:assert/strict';
import { test } from 'node:test';
import { metricsAccess } from '../../cmd/observability/pages.ts';

test('metrics are for this machine, and with METRICS_TOKEN for who has it; nobody gets them through a proxy', () => {
  const ask = (token: string | undefined, remoteAddress: string, headers: Record<string, string> = {}) =>
    metricsAccess(token)({
      remoteAddress,
      header: (name) => headers[name],
    })?.code;
  const TOKEN = 'the token of prometheus';
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
  for (const here of ['127.0.0.1', '127.9.9.9', '::1']) assert.equal(ask(undefined, here), undefined, here);
  for (const elsewhere of ['10.0.0.1', '192.0.2.1', 'fd00::1', '::ffff:10.0.0.1', 'x'])
    assert.equal(ask(undefined, elsewhere, bearer('')), 'forbidden', elsewhere);
  assert.equal(ask(TOKEN, '10.0.0.1', bearer(TOKEN)), undefined);
  assert.equal(ask(TOKEN, '10.0.0.1', bearer(`${TOKEN}?`)), 'unauthorized');
  assert.equal(ask(TOKEN, '10.0.0.1'), 'unauthorized');
  assert.equal(ask(TOKEN, '127.0.0.1', { 'x-forwarded-for': '192.0.2.1', ...bearer(TOKEN) }), 'not_found');
});
