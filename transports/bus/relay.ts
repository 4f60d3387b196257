import { setTimeout as sleep } from 'node:timers/promises';
import { errorText } from '../../lib/errors.ts';
import { backoffMs, InterruptiblePause } from '../../lib/waiting.ts';
import { type Bus, BusError } from '../../proto/ports/bus.ts';
import type { OutboxEntry, OutboxStore } from '../../proto/ports/bus-store.ts';
import type { Log } from '../../proto/ports/log.ts';

const PAGE_SIZE = 200;
const LOOK_MS = 10_000;
const BACKOFF = { minMs: 100, maxMs: 10_000 };

/**
 * Publishes what transactions left in the outbox, oldest first, each event under its id, and removes it once the stream
 * has it. Ends when `signal` aborts, after the page at hand; until then nothing ends it, failures are tried again. An
 * event nobody takes (no stream, too large) stays and holds up no other.
 */
export async function relayOutbox(options: {
  readonly store: OutboxStore;
  readonly bus: Pick<Bus, 'append'>;
  readonly log: Log;
  readonly signal: AbortSignal;
}): Promise<void> {
  const { store, bus, log, signal } = options;
  const news = new InterruptiblePause();
  const listening = store.onWrite(() => news.wake());
  signal.addEventListener('abort', () => news.wake(), { once: true });
  let failures = 0;
  try {
    while (!signal.aborted) {
      news.reset();
      let complete = false;
      try {
        complete = await publishAll(store, bus, log, signal);
      } catch (error) {
        log.warn({ error: errorText(error, 'unknown') }, 'cannot publish the outbox');
      }
      failures = complete ? 0 : failures + 1;
      if (signal.aborted) return;
      if (complete) await news.wait(LOOK_MS);
      else await sleep(backoffMs(failures, BACKOFF), undefined, { signal }).catch(() => undefined);
    }
  } finally {
    await listening.close();
  }
}

/** One pass over all pages. Resolves with whether everything went out. */
async function publishAll(
  store: OutboxStore,
  bus: Pick<Bus, 'append'>,
  log: Log,
  signal: AbortSignal,
): Promise<boolean> {
  let complete = true;
  let after = 0;
  while (!signal.aborted) {
    const page = await store.take(PAGE_SIZE, after);
    const last = page.at(-1);
    if (last === undefined) return complete;
    after = last.id;
    const results = await Promise.allSettled(
      page.map(({ subject, data, msgId }) => bus.append(subject, data, { msgId })),
    );
    const sent: OutboxEntry[] = [];
    for (const [index, entry] of page.entries()) {
      const result = results[index];
      if (result?.status === 'fulfilled') sent.push(entry);
      else if (isRefused(result?.reason)) {
        complete = false;
        log.error({ msgId: entry.msgId, subject: entry.subject }, 'no stream takes this event; it stays in the outbox');
      } else throw result?.reason;
    }
    if (sent.length > 0) await store.remove(sent.map(({ id }) => id));
  }
  return complete;
}

/** Whether this one event is at fault, not the bus. */
function isRefused(error: unknown): boolean {
  return error instanceof TypeError || (error instanceof BusError && /^(no_stream|too_large)$/.test(error.code));
}
