/** `troupe releases` and `troupe rollback`. */
import { ClientFailure } from '../failure.ts';
import { containerOf } from '../names.ts';
import { type ClientCommandOptions, openSession } from '../session.ts';
import { runStep, runSwitch } from './inside.ts';

/** A line of the list, which the container prints: number, seconds since 1970, whether it is the current one, note. */
const RELEASE = /^\d{1,9}\t\d{1,11}\t(current)?\t/;
const MOST_RELEASES = 100;

/** Lists the releases that a container has, oldest first. */
export async function listReleases(name: string | undefined, options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const container = await containerOf(session, name);
  const releases = (await runStep(session, container, ['list']))
    .split('\n')
    .filter((line) => RELEASE.test(line))
    .slice(-MOST_RELEASES)
    .map((line) => {
      const [number = '', seconds, current, note = ''] = line.split('\t');
      const deployed_at = new Date(Number(seconds) * 1000).toISOString();
      return { release: Number(number), current: current === 'current', deployed_at, note };
    });
  const { out } = session;
  out.table(
    { releases },
    ['CURRENT', 'DEPLOYED', 'NOTE', 'RELEASE'],
    releases.map(({ release, current, deployed_at, note }) => [
      current ? '*' : '',
      out.when(deployed_at),
      note,
      String(release),
    ]),
    'Nothing is deployed to it: `troupe deploy`.',
  );
}

/** Makes a release of before the current one again. */
export async function rollBack(
  name: string | undefined,
  release: string | undefined,
  options: ClientCommandOptions,
): Promise<void> {
  if (release !== undefined && !/^\d{1,9}$/.test(release))
    throw new ClientFailure('usage', `${release} is no release: \`troupe releases\` lists them.`);
  const session = openSession(options);
  const { out } = session;
  const container = await containerOf(session, name);
  const onLine = (line: string) => {
    if (!out.json) out.note(line);
  };
  const words = ['rollback', ...(release === undefined ? [] : [release])];
  const now = await runSwitch(session, container, words, onLine);
  const answer = { container_id: container.id, name: container.name, release: Number(now) };
  out.done(answer, `${container.name} runs release ${now}. Its data is as it was.`);
}
