/** The repository in a container that `git push` fills: which refs a push changed, and what of them is deployed. */
import { randomUUID } from 'node:crypto';
import { clean } from '../clean.ts';
import type { ClientSession } from '../session.ts';
import { outputOf } from './inside.ts';

export const REPOSITORY = '/root/.troupe/app.git';
/** Branches that are deployed: the first that there is. */
const BRANCHES = ['main', 'master'] as const;
/** Most bytes of one push: a container's disk is not to be filled by one. */
const MOST_PUSHED = '1g';
/** Branches that a push is told of one by one. */
const MOST_NAMED = 10;
/** What a deployment by push wants, and which release ran then: there until the release runs. */
const WANTED = '/root/.troupe/push-wanted';
/** Exit code of RECEIVE without git. */
export const NO_GIT = 9;

/**
 * Takes a push. Git tells its hooks alone which refs it names and which it changed, so $1 gets hooks that note both.
 * What the repository has of hooks runs as well.
 */
export const RECEIVE = `
command -v git >/dev/null || exit ${NO_GIT}
[ -d ${REPOSITORY} ] || git init -q --bare -b main ${REPOSITORY} || exit
find /root/.troupe -maxdepth 1 -name 'push-*-refs' -mmin +1440 -exec rm -rf {} + 2>/dev/null
mkdir -p "$1" || exit
for hook in ${REPOSITORY}/hooks/*; do
  case $hook in
    *.sample | */pre-receive | */post-receive) ;;
    *) [ ! -x "$hook" ] || ln -s "$hook" "$1/" ;;
  esac
done
for name in pre-receive post-receive; do
  cat > "$1/$name" <<'END'
#!/bin/sh
cat > "$0.refs"
hook=${REPOSITORY}/hooks/\${0##*/}
[ ! -x "$hook" ] || exec "$hook" < "$0.refs"
END
  chmod 755 "$1/$name" || exit
done
exec git -c core.hooksPath="$1" -c receive.maxInputSize=${MOST_PUSHED} receive-pack ${REPOSITORY}`;

/** Prints what a push did, a fact a line, and what runs. $1: the folder that RECEIVE had. */
const PUSHED = `
cd ${REPOSITORY} || exit
branch= commit=
for each in ${BRANCHES.join(' ')}; do
  if commit=$(git rev-parse -q --verify "refs/heads/$each^{commit}"); then branch=$each; break; fi
done
echo "branch $branch"
echo "commit $commit"
echo "current $(cat /root/app/current/commit 2>/dev/null)"
echo "release $(readlink /root/app/current 2>/dev/null)"
echo "wanted $(cat ${WANTED} 2>/dev/null)"
[ ! -e "$1/pre-receive.refs" ] || echo 'named yes'
[ ! -e "$1/post-receive.refs" ] || awk -v ref="refs/heads/$branch" '
  $2 ~ /^0+$/ { next }
  $3 == ref { print "pushed yes"; next }
  $3 !~ "^refs/heads/" { if (!others++) print "others yes"; next }
  n++ < ${MOST_NAMED} { print "stored " substr($3, 12) }' "$1/post-receive.refs"
rm -rf "$1"`;

/** Where one push notes its refs. */
export const folderOfPush = (): string => `/root/.troupe/push-${randomUUID()}-refs`;

/** What is to be deployed after a push, and what its sender is told of the rest. */
interface PushEffect {
  readonly commit: string | undefined;
  /** The release that runs: a link, empty without one. */
  readonly release: string;
  readonly told: readonly string[];
}

/** Asks what the push of that folder means for the container. Rejects with ClientFailure or TroupeError. */
export async function effectOfPush(
  session: ClientSession,
  { id, name }: { readonly id: string; readonly name: string },
  folder: string,
): Promise<PushEffect> {
  const facts = new Map<string, string>();
  const stored: string[] = [];
  for (const line of (await outputOf(session, id, ['/bin/sh', '-c', PUSHED, 'push', folder])).split('\n')) {
    const at = line.indexOf(' ');
    if (line.slice(0, at) === 'stored') stored.push(clean(line.slice(at + 1)));
    else if (at > 0) facts.set(line.slice(0, at), line.slice(at + 1));
  }
  const fact = (key: string) => facts.get(key) ?? '';
  const [branch, commit, release] = [clean(fact('branch')), fact('commit'), fact('release')];
  const nothing = (...told: string[]): PushEffect => ({ commit: undefined, release, told });
  const deployed = branch === '' ? BRANCHES.join(' or ') : branch;
  const isCurrent = commit !== '' && commit === fact('current');
  if (facts.has('pushed')) return isCurrent ? nothing(`${name} runs this commit.`) : { commit, release, told: [] };
  if (!facts.has('named')) {
    // Git does not tell us what it was asked to push when all of that is here.
    if (branch === '') return nothing(`Nothing is deployed: push to ${deployed}.`);
    if (isCurrent) return nothing(`Nothing new came: ${name} runs the newest commit of ${branch}.`);
    if (fact('wanted') === `${commit} ${release}`)
      return { commit, release, told: [`Nothing new came: ${branch} is deployed again, as that failed before.`] };
    return nothing(
      `Nothing new came, so nothing is deployed. ${name} does not run the newest commit of ${branch}: push another, ` +
        `or choose one of \`${session.out.place.program} releases ${name}\` with rollback.`,
    );
  }
  const told = stored.map((each) => `${each} is stored, and not deployed: push to ${deployed}.`);
  if (facts.has('others')) told.push('Tags are stored, and not deployed.');
  return nothing(...told);
}

/** Notes that this commit is to run in the place of that release: an empty push tries it again as long as that runs. */
export async function noteWanted(session: ClientSession, id: string, commit: string, release: string): Promise<void> {
  const script = `printf '%s %s' "$1" "$2" > ${WANTED}`;
  await outputOf(session, id, ['/bin/sh', '-c', script, 'push', commit, release]);
}

/** Forgets it: the commit runs. */
export async function forgetWanted(session: ClientSession, id: string): Promise<void> {
  await outputOf(session, id, ['/bin/sh', '-c', `rm -f ${WANTED}`]);
}
