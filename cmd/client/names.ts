/** Things by their names, ids, or unique beginnings of either. */
import type { Container } from '../../client/index.ts';
import { ClientFailure } from './failure.ts';
import { choose } from './prompt.ts';
import type { ClientSession } from './session.ts';

interface NamedThing {
  readonly id: string | number;
  readonly name: string;
}

/** The one that `text` means: its whole name or id first, then a beginning. Throws ClientFailure. */
export function pick<T extends NamedThing>(things: readonly T[], text: string, what: string): T {
  const exact = things.filter(({ id, name }) => String(id) === text || name === text);
  const found =
    exact.length > 0 ? exact : things.filter(({ id, name }) => name.startsWith(text) || String(id).startsWith(text));
  const [one] = found;
  if (one !== undefined && found.length === 1) return one;
  if (found.length > 1) {
    const candidates = found.map(({ id, name }) => `${name} (${id})`);
    throw new ClientFailure('usage', `${text} may be ${candidates.join(', ')}: say which.`, { candidates });
  }
  const known = things.map(({ name }) => name).join(', ');
  const there = known === '' ? `you have none` : `there is ${known}`;
  throw new ClientFailure('missing', `There is no ${what} ${text}: ${there}.`);
}

/** The container of a command. Without a name it is the only one, or a person chooses. */
export async function containerOf(session: ClientSession, text: string | undefined): Promise<Container> {
  const { containers } = await session.client.call('listContainers');
  if (text !== undefined) return pick(containers, text, 'container');
  const [only] = containers;
  if (only === undefined) throw new ClientFailure('missing', 'You have no container: `troupe run NAME` makes one.');
  if (containers.length === 1) return only;
  const labels = containers.map(({ name, status }) => `${session.out.status(status)}  ${name}`);
  const at = await choose(
    session.out,
    'Which container?',
    labels,
    `Name a container: ${containers.map(({ name }) => name).join(', ')}.`,
  );
  return containers[at] ?? only;
}

/**
 * Rejects with ClientFailure if another container of the user has that name. The platform allows that, but then no
 * command knows which of them is meant.
 */
export async function mustBeFree({ client }: ClientSession, name: string, except?: string): Promise<void> {
  const { containers } = await client.call('listContainers');
  const others = containers.filter((each) => each.name === name && each.id !== except).map(({ id }) => id);
  if (others.length > 0)
    throw new ClientFailure(
      'state',
      `You have a container ${name} (${others.join(', ')}): take another name. With --same-name there are several ` +
        'of that name, which commands tell apart by their ids.',
      { candidates: others.map((id) => `${name} (${id})`) },
    );
}

/** Several of them. */
export async function containersOf(session: ClientSession, texts: readonly string[]): Promise<Container[]> {
  if (texts.length === 0) return [await containerOf(session, undefined)];
  const { containers } = await session.client.call('listContainers');
  return [...new Set(texts.map((text) => pick(containers, text, 'container')))];
}
