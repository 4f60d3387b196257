import { z } from 'zod';
import { jsonOf } from '../../lib/input.ts';
import type { ConsumerConfig, StreamConfig, StreamMessage } from '../../proto/ports/bus.ts';
import type { DeadLetterSink } from '../../proto/ports/bus-store.ts';
import type { Log } from '../../proto/ports/log.ts';
import { isInternal } from '../../proto/subjects.ts';
import type { Envelopes } from './envelopes.ts';
import type { NatsAdmin } from './nats-admin.ts';

/**
 * The server tells once, to whoever listens, that a message was delivered too often (an advisory). So that none is
 * missed while no process runs, a stream of its own keeps what is told about `stream`.
 */
export function advisoryStream(stream: string): StreamConfig {
  return {
    name: `${stream}_GIVEN_UP`,
    subjects: [`$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.${stream}.>`],
    maxMessages: 100_000,
    maxBytes: 64 << 20,
    maxAgeMs: 7 * 86_400_000,
    duplicateWindowMs: 120_000,
  };
}

/** Its consumer: never gives up. */
export const ADVISORY_CONSUMER: ConsumerConfig = {
  durable: 'dead-letters',
  ackWaitMs: 30_000,
  maxDeliver: -1,
  maxAckPending: 100,
};

const advisoryView = z.object({
  stream: z.string(),
  consumer: z.string(),
  stream_seq: z.number(),
  deliveries: z.number(),
});

/** Handles advisories: fetches the message that each speaks of and keeps it as a dead letter. */
export function keepGivenUp(admin: NatsAdmin, deadLetters: DeadLetterSink, log: Log, envelopes: Envelopes) {
  return async (batch: readonly StreamMessage[]): Promise<void> => {
    for (const told of batch) {
      const { data: advisory } = advisoryView.safeParse(jsonOf(Buffer.from(told.data).toString()));
      if (advisory === undefined) log.warn({ seq: told.seq }, 'an advisory cannot be read');
      else await keep(advisory, told.storedAt ?? Date.now());
      await told.ack();
    }
  };

  async function keep(
    { stream, consumer: durable, stream_seq: seq, deliveries }: z.output<typeof advisoryView>,
    toldAt: number,
  ): Promise<void> {
    const message = await admin.message(stream, seq);
    const storedAt = message?.time.getTime() ?? 0;
    // Gone by the stream's limits; or another message of a stream made anew.
    if (message === undefined || storedAt > toldAt) {
      log.warn({ stream, durable, seq }, 'a message was delivered too often, and is gone');
      return;
    }
    const msgId = message.header.get('Nats-Msg-Id') || undefined;
    const { subject } = message;
    const data = contentOf(message);
    if (data === undefined) {
      log.warn({ stream, durable, seq }, 'a message was delivered too often, and is not of the platform');
      return;
    }
    const reason = 'delivered too often';
    await deadLetters.add([{ stream, durable, seq, storedAt, subject, data, msgId, deliveries, reason }]);
  }

  function contentOf({ subject, data }: { subject: string; data: Uint8Array }): Uint8Array | undefined {
    if (!isInternal(subject)) return data;
    try {
      return envelopes.openKept(subject, data);
    } catch {
      return undefined;
    }
  }
}
