/** Images by the names that `troupe image ls` and `troupe image push` print. */
import { TroupeError } from '../../client/index.ts';
import { ClientFailure } from './failure.ts';
import type { ClientSession } from './session.ts';

/**
 * The reference that a container takes: of `img:1` and `ann/img:1` the whole one, of `img` that with the tag `latest`.
 * What the platform does not list is handed on as it is, and the platform says what is wrong with it. Throws
 * ClientFailure if it may be several.
 */
export async function imageNamed({ client }: ClientSession, text: string): Promise<string> {
  const [first = '', ...rest] = text.split('/');
  // It names a registry.
  if (rest.length > 0 && (/[.:]/.test(first) || first === 'localhost')) return text;
  const images = await client.call('listImages').catch((error: unknown) => {
    // A token may make containers and not see them.
    if (error instanceof TroupeError && error.status === 403) return [];
    throw error;
  });
  if (images.some(({ name, source, image }) => image === text || (source === 'builtin' && name === text))) return text;
  const tagged = text.includes(':') ? text : `${text}:latest`;
  const listed = images.filter(({ source }) => source === 'registry');
  const exact = listed.filter(({ name }) => name === tagged);
  const found = exact.length > 0 ? exact : listed.filter(({ name }) => name.endsWith(`/${tagged}`));
  const [one, another] = found;
  if (another !== undefined)
    throw new ClientFailure('usage', `${text} may be ${found.map(({ name }) => name).join(', ')}: say which.`, {
      candidates: found.map(({ name }) => name),
    });
  return one?.image ?? text;
}
