/** `git push` by SSH: what the platform's end of it does. The repository is in the container. */
import { clean } from '../clean.ts';
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

/** Most paths that a push is told of one by one. */
const MOST_LACKED = 20;

/**
 * Lays the files of a commit into a folder, and prints those that tell what it is, and what git did not send: all that
 * submodules have, and files of Git LFS, in whose place is a text that names them. `git archive` would leave out what
 * .gitattributes takes from archives.
 */
const EXTRACT = `
set -e
cd ${REPOSITORY}
umask 022
export GIT_INDEX_FILE="$2/index"
git read-tree "$1"
git --work-tree="$2/app" checkout-index -a
rm -f "$2/index"
echo "$1" > "$2/commit"
cd "$2/app"
for name in ${[...TELLING_FILES, SETTINGS_FILE].join(' ')}; do
  [ ! -f "$name" ] || echo "$name $(head -c ${MOST_TEXT} "$name" | base64 -w 0)"
done
few() { head -n ${MOST_LACKED} | base64 -w 0; }
echo "submodules $(git --git-dir=${REPOSITORY} ls-tree -r "$1" | sed -n 's/^160000 commit [0-9a-f]*\t//p' | few)"
echo "pointers $(find . -type f -size -1025c -exec grep -l '^version https://git-lfs.github.com/spec/' {} + |
  while read -r name; do ! grep -q '^oid sha256:' "$name" || echo "\${name#./}"; done | few)"
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
  let lacks: readonly string[] = [];
  const { release, port } = await install(session, container, {
    async fill(folder) {
      const planned = await planFor(session, container, folder, commit);
      lacks = planned.lacks;
      for (const line of lacks) say(line);
      return planned.plan;
    },
    say,
  });
  await forgetWanted(session, id);
  const place = await openPorts(session, container, port);
  say(`${name} runs release ${release}${place.url === undefined ? `. ${place.hint}` : `: ${place.url}`}`);
  for (const line of place.keeping) say(line);
  // What a build said stands between.
  for (const line of lacks) say(line);
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
): Promise<{ readonly plan: ReleasePlan; readonly lacks: readonly string[] }> {
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
  return {
    plan: { ...plan, start: plan.start, port: plan.port ?? (await portOf(session, id)), note },
    lacks: lackingLines(found),
  };
}

/** What a push did not bring, as sentences. */
function lackingLines(found: ReadonlyMap<string, string>): string[] {
  const named = (what: string) => {
    const paths = (found.get(what) ?? '').split('\n').filter((path) => path !== '');
    const more = paths.length === MOST_LACKED ? ' and perhaps others' : '';
    return paths.length === 0 ? undefined : `${paths.map(clean).join(', ')}${more}`;
  };
  const [submodules, pointers] = [named('submodules'), named('pointers')];
  const instead = '`troupe deploy` brings the files of your folder.';
  return [
    ...(submodules === undefined
      ? []
      : [`These folders are empty, as git does not send the files of submodules: ${submodules}. ${instead}`]),
    ...(pointers === undefined
      ? []
      : [`These files are pointers of Git LFS, without their content: ${pointers}. ${instead}`]),
  ];
}
