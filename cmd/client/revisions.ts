/** `troupe revisions`, and which one `troupe update --revision` means. */
import { type Container, imageName } from '../../client/index.ts';
import { ClientFailure } from './failure.ts';
import { containerOf } from './names.ts';
import { type ClientCommandOptions, type ClientSession, openSession } from './session.ts';

/** Lists what a container ran, newest first. */
export async function listRevisions(name: string | undefined, options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { client, out } = session;
  const { id } = await containerOf(session, name);
  const answer = await client.call('listRevisions', { params: { id } });
  out.table(
    answer,
    ['NOW', 'IMAGE', 'DIGEST', 'VARIABLES', 'STARTED', 'NOTE', 'REVISION'],
    answer.revisions.map((one) => [
      one.current ? '*' : '',
      imageName(one.image),
      one.digest?.slice(7, 19) ?? '',
      [...one.env, ...one.secrets].join(' '),
      out.when(one.started_at),
      one.given_up === undefined ? '' : 'given up',
      String(one.number),
    ]),
    'It has not run yet.',
  );
}

/** The number of a revision as it is typed: a number, or `previous`. Throws ClientFailure when there is none. */
export async function revisionNamed(
  { client }: Pick<ClientSession, 'client'>,
  { id, name }: Pick<Container, 'id' | 'name'>,
  text: string,
): Promise<number> {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  if (text !== 'previous')
    throw new ClientFailure('usage', `${text} is no revision: \`troupe revisions ${name}\` lists them.`);
  const { revisions } = await client.call('listRevisions', { params: { id } });
  const now = revisions.findIndex(({ current }) => current);
  const found = revisions.slice(now + 1).find(({ given_up }) => given_up === undefined);
  if (found === undefined) throw new ClientFailure('missing', `${name} ran nothing else before.`);
  return found.number;
}
