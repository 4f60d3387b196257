/** `git push` by SSH: what the platform's end of it does. The repository is in the container. */
import { joined } from '../exec.ts';
import { ClientFailure } from '../failure.ts';
import { pick } from '../names.ts';
import { type ClientCommandOptions, type ClientSession, openSession } from '../session.ts';
import { outputOf } from './inside.ts';
import { install, openPorts, portOf, type ReleasePlan } from './install.ts';
import { planOf, TELLING_FILES, type TellingFile } from './plan.ts';
import { effectOfPush, folderOfPush, forgetWanted, NO_GIT, noteWanted, RECEIVE, REPOSITORY } from './repository.ts';
import { SETTINGS_FILE, settingsOf } from './settings.ts';

/** Most bytes that are read of a file that tells what the folder is, and of all of them as they come, in base64. */
const MOST_TEXT = 64 * 1024;
const MOST_TOLD = 2 * 1024 * 1024;

const UPLOAD = `
command -v git >/dev/null || exit ${NO_GIT}
[ -d ${REPOSITORY} ] || { echo 'Nothing was pushed to this container.' >&2; exit 1; }
exec git upload-pack ${REPOSITORY}`;

/** Lays the files of a commit into a folder, and prints those that tell what it is. */
const EXTRACT = `
set -e
cd ${REPOSITORY}
git archive "$1" | tar -x -C "$2/app" --no-same-owner
echo "$1" > "$2/commit"
cd "$2/app"
for name in ${[...TELLING_FILES, SETTINGS_FILE].join(' ')}; do
  [ ! -f "$name" ] || echo "$name $(head -c ${MOST_TEXT} "$name" | base64 -w 0)"
done
git --git-dir=${REPOSITORY} log -1 --format='subject %s' "$1"`;

/** Takes a push, and deploys what it brought to the branch that is deployed. Other refs are stored, and said. */
export async function receivePush(repository: string, options: ClientCommandOptions): Promise<void> {
  const { session, container } = await opened(repository, options);
  const { id, name } = container;
  const { out } = session;
  const refs = folderOfPush();
  const code = await joined(session, id, ['/bin/sh', '-c', RECEIVE, 'push', refs]);
  if (code === NO_GIT) throw withoutGit(name);
  if (code !== 0) throw new ClientFailure('failed', 'git did not take the push.');
  // Standard output is git's own.
  const say = (line: string) => out.note(line);
  const effect = await effectOfPush(session, container, refs);
  for (const line of effect.told) say(line);
  const { commit } = effect;
  if (commit === undefined) return;
  await noteWanted(session, id, commit, effect.release);
  const { release, port } = await install(session, container, {
    fill: (folder) => planFor(session, container, folder, commit),
    say,
  });
  await forgetWanted(session, id);
  const place = await openPorts(session, container, port);
  say(`${name} runs release ${release}${place.url === undefined ? `. ${place.hint}` : `: ${place.url}`}`);
  for (const line of place.keeping) say(line);
}

/** Sends what was pushed: `git clone` and `git fetch`. */
export async function sendPushed(repository: string, options: ClientCommandOptions): Promise<void> {
  const { session, container } = await opened(repository, options);
  const code = await joined(session, container.id, ['/bin/sh', '-c', UPLOAD]);
  if (code === NO_GIT) throw withoutGit(container.name);
  session.out.place.exitWith(code ?? 1);
}

/** The container that a path of git means: `/shop.git`, `shop`. */
async function opened(repository: string, options: ClientCommandOptions) {
  const session = openSession(options);
  const name = repository
    .replace(/^\/+(~\/)?/, '')
    .replace(/\/$/, '')
    .replace(/\.git$/, '');
  const { containers } = await session.client.call('listContainers');
  if (!containers.some((each) => each.name === name || each.id === name))
    throw new ClientFailure(
      'missing',
      `There is no container ${name}. Make it first: ${session.out.place.program} run ${name || 'NAME'} --image node`,
    );
  const container = pick(containers, name, 'container');
  if (container.status !== 'running')
    throw new ClientFailure('state', `${name} does not run: ${session.out.place.program} start ${name}`);
  return { session, container };
}

function withoutGit(name: string): ClientFailure {
  return new ClientFailure('state', `${name} has no git: its image must have it, such as node, python and dev.`);
}

async function planFor(
  session: ClientSession,
  { id, name }: { readonly id: string; readonly name: string },
  folder: string,
  commit: string,
): Promise<ReleasePlan> {
  const found = new Map<string, string>();
  let subject = '';
  const command = ['/bin/sh', '-c', EXTRACT, 'push', commit, folder];
  for (const line of (await outputOf(session, id, command, { mostBytes: MOST_TOLD })).split('\n')) {
    const at = line.indexOf(' ');
    const [word, rest] = [line.slice(0, at), line.slice(at + 1)];
    if (word === 'subject') subject = rest;
    else if (at > 0 && rest.length <= MOST_TEXT * 2) found.set(word, Buffer.from(rest, 'base64').toString('utf8'));
  }
  const texts: Partial<Record<TellingFile, string>> = {};
  for (const file of TELLING_FILES) {
    const text = found.get(file);
    if (text !== undefined) texts[file] = text;
  }
  const toml = found.get(SETTINGS_FILE);
  const plan = planOf(name, texts, toml === undefined ? {} : await settingsOf(toml), { name });
  if (plan.start === undefined)
    throw new ClientFailure(
      'usage',
      `Which command starts it? The repository has ${plan.found}. Say it in ${SETTINGS_FILE}: start = "..."`,
    );
  const note = `${commit.slice(0, 8)} ${subject}`.slice(0, 200);
  return { ...plan, start: plan.start, port: plan.port ?? (await portOf(session, id)), note };
}
