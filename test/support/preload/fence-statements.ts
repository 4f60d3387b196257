/** For what is loaded into a process under test: the statements of the fence on their way to the database. */
import pg from 'pg';

/** What `shown-fence` writes. */
export const FENCED_LINE = 'a write was refused by the fence';

const FENCE = /from placement_shards where service = \$1 and shard = \$2 and epoch = \$3/;

/** `send` takes what pg should send instead, and returns what pg returns. */
export function onFence(handle: (statement: object, send: (statement: object) => unknown) => unknown): void {
  const query: unknown = pg.Client.prototype.query;
  if (typeof query !== 'function') throw new TypeError('pg has no query to be changed');
  Object.defineProperty(pg.Client.prototype, 'query', {
    value(this: pg.Client, first: unknown, ...rest: unknown[]): unknown {
      const send = (statement: unknown): unknown => Reflect.apply(query, this, [statement, ...rest]);
      const isFence =
        typeof first === 'object' &&
        first !== null &&
        'text' in first &&
        typeof first.text === 'string' &&
        FENCE.test(first.text);
      return isFence ? handle(first, send) : send(first);
    },
  });
}
