/**
 * Loaded into a process under test (`node --import`): it is killed where it keeps an answer with what it makes, before
 * the commit of both or after it (TROUPE_TEST_DIES).
 */
import pg from 'pg';

const KEEPS = /^update idempotency_keys set answer = \$3 where .* and answer is null$/;
const when = process.env.TROUPE_TEST_DIES;
const keeping = new WeakSet<object>();

const die = () => process.kill(process.pid, 'SIGKILL');
const query: unknown = pg.Client.prototype.query;
if (typeof query !== 'function') throw new TypeError('pg has no query to be changed');
Object.defineProperty(pg.Client.prototype, 'query', {
  value(this: pg.Client, first: unknown, ...rest: unknown[]): unknown {
    const text = typeof first === 'object' && first !== null && 'text' in first ? String(first.text) : '';
    const isCommit = /(?:^|; )commit$/.test(text) && keeping.has(this);
    if (isCommit && when === 'before') die();
    if (KEEPS.test(text)) keeping.add(this);
    const answer: unknown = Reflect.apply(query, this, [first, ...rest]);
    return isCommit && answer instanceof Promise ? answer.finally(die) : answer;
  },
});
