/** A planted bug: loaded into a process under test (`node --import`), it makes the fence let everybody through. */
import { onFence } from './fence-statements.ts';

const OPEN = `select 'off' as idle where $1::text is not null and $2::int is not null and $3::bigint is not null and $4::text is not null`;

onFence((statement, send) => send({ ...statement, text: OPEN }));
