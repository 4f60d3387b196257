/**
 * Does a request fail while the image of a container without mount paths is changed? `npm run soak -- revisions
 * [CHANGES [REQUESTS A SECOND [kubernetes]]]`: 10 changes under 1,000 requests a second, every tenth a POST. Then, on Docker, the same
 * of one with a mount path, under a thirtieth of that: requests wait for it, 500 at the most. Another container has a
 * WebSocket open all the time, which must last.
 */
import { tryRevisions } from '../support/cluster/revisions.ts';
import { revisionsOnKubernetes } from '../support/kubernetes/revisions.ts';

const [changes = 10, perSecond = 1000] = process.argv.slice(2, 4).map(Number);
const isOnKubernetes = process.argv[4] === 'kubernetes';
const ends: (() => unknown)[] = [];
try {
  const t = { after: (end: () => unknown) => void ends.unshift(end) };
  const without = { changes, perSecond, hasNeighbour: true };
  const trials = isOnKubernetes
    ? [{ ...without, world: await revisionsOnKubernetes(t) }]
    : [without, { changes, perSecond: perSecond / 30, mountPaths: ['/data'], hasNeighbour: true }];
  for (const trial of trials) {
    const { requests, failures, wrongPosts, changesMs, neighbourLives } = await tryRevisions(t, trial);
    const wrong = failures.length + wrongPosts.length;
    process.stdout.write(`${requests} requests, ${wrong} failed; changes, ms: ${changesMs.join(' ')}\n`);
    for (const failure of new Set([...failures, ...wrongPosts])) process.stdout.write(`${failure}\n`);
    if (neighbourLives === false) process.stdout.write('a WebSocket of another container was closed\n');
    if (wrong > 0 || neighbourLives === false) process.exitCode = 1;
  }
} finally {
  for (const end of ends) await end();
}
