/** Waiting for a container: one line that changes on a terminal, a line for each change elsewhere. */
import type { Container } from '../../client/index.ts';
import { InterruptiblePause } from '../../lib/waiting.ts';
import { ClientFailure } from './failure.ts';
import { cut } from './output.ts';
import type { ClientSession } from './session.ts';

const EVERY_MS = 700;
/** How far the platform is with an image of its own that it builds (mmdebstrap.ts, images.ts). */
const BUILDING = /^\d{1,3}% /;
/** Longest build that is waited for in all, ms. The platform has limits of its own for one. */
const MOST_BUILDING_MS = 3_600_000;
/** The platform may restart meanwhile, ms. */
const MOST_AWAY_MS = 60_000;

interface WaitGoal {
  /** What it should become. */
  readonly until: 'running' | 'stopped' | 'gone';
  readonly seconds: number;
  /** What goes on when the wait is interrupted: "it goes on starting". */
  readonly goesOn: string;
  /** Not before an image that waits is its image, or is given up. */
  readonly awaitsImage?: boolean;
}

/**
 * Resolves with the container; undefined when it is gone. The time in which the platform builds an image of its own
 * does not count: that takes minutes. Throws ClientFailure: `failed`, `timeout`, `interrupted`.
 */
export async function waitFor(
  session: ClientSession,
  { id, name }: Pick<Container, 'id' | 'name'>,
  { until, seconds, goesOn, awaitsImage = false }: WaitGoal,
): Promise<Container | undefined> {
  const line = new StatusLine(session);
  let deadline = performance.now() + seconds * 1000;
  const lastDeadline = deadline + MOST_BUILDING_MS;
  let lookedAt = performance.now();
  let isBuilding = false;
  const pause = new InterruptiblePause();
  let isInterrupted = false;
  const release = session.out.place.onInterrupt(() => {
    isInterrupted = true;
    pause.wake();
  });
  let seenAt = performance.now();
  let isThere = false;
  try {
    for (;;) {
      const found = await look(session, id, performance.now() - seenAt < MOST_AWAY_MS);
      const now = performance.now();
      if (isBuilding) deadline = Math.min(lastDeadline, deadline + now - lookedAt);
      lookedAt = now;
      if (found !== undefined) seenAt = now;
      if (found === 'gone') return undefined;
      if (found !== undefined) {
        const { status, health, health_reason: unwell, status_reason: reason = unwell ?? '' } = found;
        isThere = status === until && health === 'starting';
        const isComing = health === 'starting' || (awaitsImage && found.next_image !== undefined);
        if (status === until && !isComing) return found;
        if (status === 'failed' && until !== 'gone') {
          const why = reason === '' ? `${name} failed.` : `${name} failed: ${reason}`;
          throw new ClientFailure('failed', `${why}\n\`troupe logs ${name}\` may say more.`);
        }
        isBuilding = status === 'pending' && BUILDING.test(reason);
        line.show(`${session.out.status(status)}  ${name}`, reason);
      }
      if (performance.now() > deadline)
        throw new ClientFailure(
          'timeout',
          isThere
            ? `${name} is ${until}, but not healthy after ${seconds} s. See \`troupe show ${name}\`, or give --timeout.`
            : `${name} is not ${until} after ${seconds} s; ${goesOn}. See \`troupe show ${name}\`.`,
        );
      await pause.wait(EVERY_MS);
      if (isInterrupted) throw new ClientFailure('interrupted', `${name}: ${goesOn}. See \`troupe show ${name}\`.`);
    }
  } finally {
    release();
    line.clear();
  }
}

/** The container; `gone`; undefined when the platform is away and `mayBeAway`. */
async function look(
  { client }: ClientSession,
  id: string,
  mayBeAway: boolean,
): Promise<Container | 'gone' | undefined> {
  try {
    return await client.call('getContainer', { params: { id } });
  } catch (error) {
    if (error instanceof Error && 'status' in error && error.status === 404) return 'gone';
    const isAway = error instanceof Error && 'status' in error && [0, 502, 503].includes(Number(error.status));
    if (isAway && mayBeAway) return undefined;
    throw error;
  }
}

/** Progress on standard error. */
class StatusLine {
  readonly #session: ClientSession;
  #last = '';

  constructor(session: ClientSession) {
    this.#session = session;
  }

  show(head: string, reason: string): void {
    const text = reason === '' ? head : `${head}  ${reason}`;
    if (text === this.#last || this.#session.out.json) return;
    this.#last = text;
    const { stderr } = this.#session.out.place;
    if (!stderr.isTTY) stderr.write(`${text}\n`);
    else stderr.write(`\r\x1b[K${cut(text, (stderr.columns || 80) - 1)}`);
  }

  clear(): void {
    const { stderr } = this.#session.out.place;
    if (stderr.isTTY && this.#last !== '') stderr.write('\r\x1b[K');
  }
}
