import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { auditFilter, auditJson, auditLine, follow } from '../../cmd/cli/audit.ts';
import { CliError } from '../../cmd/config/cli-error.ts';
import { type AuditRow, audit } from '../../storage/audit.ts';
import { openDb } from '../../storage/db.ts';
import { testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';
import { until } from '../support/until.ts';

const NOW = Date.parse('2026-01-31T12:00:00Z');
const row: AuditRow = {
  ...{
    id: 7,
    at: new Date(NOW),
    userId: 'abcdefghijkl',
    username: 'ann',
    action: 'token.create',
    target: 'tokentokento',
  },
  ...{ address: '2001:db8::1', requestId: 'r1', detail: { name: 'my token', scopes: { a: ['read'] }, by: 'cli' } },
};

describe('troupe audit', () => {
  test('takes a time as an age or a date, and refuses what it cannot read', () => {
    const since = (text: string) => auditFilter({ since: text, limit: '50' }, NOW).since?.toISOString();
    assert.equal(since('90s'), '2026-01-31T11:58:30.000Z');
    assert.equal(since('30m'), '2026-01-31T11:30:00.000Z');
    assert.equal(since('24h'), '2026-01-30T12:00:00.000Z');
    assert.equal(since('7d'), '2026-01-24T12:00:00.000Z');
    assert.equal(since('999999999w'), '1970-01-01T00:00:00.000Z');
    assert.equal(since('2026-01-30'), '2026-01-30T00:00:00.000Z');
    assert.equal(since('2026-01-30T10:00+02:00'), '2026-01-30T08:00:00.000Z');
    assert.deepEqual(auditFilter({ user: 'ann', action: 'token', limit: '3' }, NOW), {
      ...{ username: 'ann', action: 'token', limit: 3 },
    });
    const bad = [{ since: 'yesterday' }, { since: '24' }, { since: '2026-13-01' }, { since: '' }, { action: 'a b' }];
    for (const options of [
      ...bad,
      { action: 'token.' },
      { limit: '0' },
      { limit: '-1' },
      { limit: '1e9' },
      { limit: '' },
    ])
      assert.throws(() => auditFilter({ limit: '50', ...options }, NOW), CliError, JSON.stringify(options));
  });

  test('writes one line an entry, in columns, with nothing that a terminal obeys', () => {
    assert.equal(
      auditLine(row),
      '2026-01-31T12:00:00.000Z  ann               token.create              tokentokento  2001:db8::1      name="my token" scopes={"a":["read"]} by=cli',
    );
    const empty = { ...row, username: '', target: '', address: '', detail: {} };
    assert.equal(
      auditLine(empty),
      '2026-01-31T12:00:00.000Z  -                 token.create              -             -                -',
    );
    const evil = auditLine({ ...row, target: 'a\n\u001b[31m', detail: { name: '\u009b31m\u202e\n' } });
    assert.match(evil, /a\\u\{a\}\\u\{1b\}\[31m .* name="\\u\{9b\}31m\\u\{202e\}\\n"$/);
    assert.deepEqual(Object.keys(JSON.parse(auditJson(row))), [
      ...['id', 'at', 'user_id', 'username', 'action', 'target', 'address', 'request_id', 'detail'],
    ]);
  });

  test('follows: each entry that fits comes once, also one committed late', async (t) => {
    const database = await testDatabase();
    const late = openDb(database.connection, { log: silentLog, name: 'late' });
    const [printed, end] = [[] as string[], new AbortController()];
    t.after(async () => {
      end.abort();
      await late.close();
      await database.close();
    });
    const { db } = database;
    const write = (target: string, action = 'token.create', tx: Parameters<typeof audit>[0] = db) =>
      audit(tx, { userId: null, username: 'ann', action, target });
    await write('one');
    await write('two');
    const following = follow(
      db,
      { action: 'token', limit: 1 },
      async (rows) => void printed.push(...rows.map(({ target }) => target)),
      end.signal,
    );
    await until(() => printed.length === 1);
    await late.tx(async (tx) => {
      await write('late', 'token.create', tx);
      await write('three');
      await until(() => printed.length === 2);
    });
    await write('other', 'login');
    await write('four');
    await until(() => printed.length >= 4);
    assert.deepEqual(printed.toSorted(), ['four', 'late', 'three', 'two']);
    end.abort();
    await following;
  });
});
