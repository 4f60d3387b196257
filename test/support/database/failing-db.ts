/** A database that a test can take away. */
import { isFenced } from '../../../proto/ports/placement.ts';
import type { Db } from '../../../storage/db.ts';

/** A database of which the test can make every statement fail. */
export interface FailingDb extends Db {
  failure: Error | undefined;
  /** Transactions that were refused because their lease was over. */
  readonly fenced: number;
}

export function failingDb(db: Db): FailingDb {
  const guarded = <T>(work: () => Promise<T>): Promise<T> =>
    failing.failure === undefined ? work() : Promise.reject(failing.failure);
  let fenced = 0;
  const failing: FailingDb = {
    failure: undefined,
    direct: db.direct,
    get fenced() {
      return fenced;
    },
    many: (schema, text, values) => guarded(() => db.many(schema, text, values)),
    one: (schema, text, values) => guarded(() => db.one(schema, text, values)),
    run: (text, values) => guarded(() => db.run(text, values)),
    script: (text) => guarded(() => db.script(text)),
    notify: (channel, payload) => guarded(() => db.notify(channel, payload)),
    hint: (channel) => guarded(() => db.hint(channel)),
    ping: () => guarded(() => db.ping()),
    tx: (work, options) =>
      guarded(() => db.tx(work, options)).catch((error: unknown) => {
        if (isFenced(error)) fenced++;
        throw error;
      }),
    listen: (channel, handler) => db.listen(channel, handler),
    tellOver: (bus) => db.tellOver(bus),
    close: () => db.close(),
  };
  return failing;
}
