/** A planted bug: loaded into a process under test (`node --import`), it makes the fence let everybody through. */
import pg from 'pg';

const FENCE = /from placement_shards where service = \$1 and shard = \$2 and epoch = \$3/;
const OPEN = `select 'off' as idle where $1::text is not null and $2::int is not null and $3::bigint is not null and $4::text is not null`;

const query: unknown = pg.Client.prototype.query;
if (typeof query !== 'function') throw new TypeError('pg has no query to be changed');
Object.defineProperty(pg.Client.prototype, 'query', {
  value(this: pg.Client, first: unknown, ...rest: unknown[]): unknown {
    const isFence =
      typeof first === 'object' &&
      first !== null &&
      'text' in first &&
      typeof first.text === 'string' &&
      FENCE.test(first.text);
    return Reflect.apply(query, this, [isFence ? { ...first, text: OPEN } : first, ...rest]);
  },
});
