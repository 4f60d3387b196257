/** Waiting until a container runs with a change. */
import type { Container } from '../../client/index.ts';
import { ClientFailure } from './failure.ts';
import type { ClientSession } from './session.ts';
import { waitFor } from './wait.ts';

/**
 * Waits until it runs with a change that was asked for, if it ran before. Rejects with ClientFailure, `failed` if it
 * went back to what it was.
 */
export async function settled(
  session: ClientSession,
  before: Container,
  asked: Container,
  seconds: number,
): Promise<Container> {
  const isOver = asked.next_image === undefined && asked.status === before.status && asked.health !== 'starting';
  if (isOver || asked.status === 'stopped' || asked.status === 'failed') return asked;
  const goal = { until: 'running', seconds, goesOn: 'the change goes on', awaitsImage: true } as const;
  const now = await waitFor(session, asked, goal);
  if (now === undefined) throw new ClientFailure('missing', `${asked.name} was deleted meanwhile.`);
  const isOther = now.image !== (asked.next_image ?? asked.image);
  // One that was given up is said there, while the container runs.
  if (isOther || (now.status_reason !== undefined && now.status_reason !== asked.status_reason)) {
    const why = now.status_reason ?? 'its image was changed otherwise meanwhile.';
    throw new ClientFailure('failed', `${now.name}: ${why}${await evidence(session, now)}`);
  }
  return now;
}

/** What the container of a change that failed said last, in lines of their own; empty when nothing is known. */
async function evidence({ client }: ClientSession, { id, status_reason }: Container): Promise<string> {
  const known = await client.call('listRevisions', { params: { id } }).catch(() => undefined);
  const failed = known?.failed_change;
  // That of this change, and of no other.
  if (failed === undefined || failed.reason !== status_reason) return '';
  const { answers, log } = failed;
  const part = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : [title, ...lines.map((line) => `  ${line}`)];
  return [...part('\nIts check, the last answers:', answers), ...part('\nThe end of its log:', log)].join('\n');
}
