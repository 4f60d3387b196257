import type { StreamStore } from '../../proto/ports/bus-store.ts';
import type { Db } from '../db.ts';
import * as consumers from './consumers.ts';
import { listDeadLetters } from './dead-letters.ts';
import { asBus } from './errors.ts';
import { APPEND_CHANNEL, append, ensureStream, listStreams, trim } from './streams.ts';

/** Streams and consumers of the embedded bus in `db`. Closing `db` is the caller's. */
export function streamStore(db: Db): StreamStore {
  return {
    ensureStream: (config) => asBus(() => ensureStream(db, config)),
    streams: () => asBus(() => listStreams(db)),
    append: (stream, messages) => asBus(() => append(db, stream, messages)),
    ensureConsumer: (stream, consumer) => asBus(() => consumers.ensureConsumer(db, stream, consumer)),
    fetch: (stream, durable) => asBus(() => consumers.fetch(db, stream, durable)),
    ack: (stream, durable, seqs) => asBus(() => consumers.ack(db, stream, durable, seqs)),
    nak: (stream, durable, items) => asBus(() => consumers.nak(db, stream, durable, items)),
    term: (stream, durable, items) => asBus(() => consumers.term(db, stream, durable, items)),
    deadLetters: (stream, limit) => asBus(() => listDeadLetters(db, stream, limit)),
    onAppend: (handler) => db.listen(APPEND_CHANNEL, handler),
    trim: () => asBus(() => trim(db)),
  };
}
