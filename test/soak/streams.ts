/**
 * Do streams hold what they promise when there are many, and when they break?
 *
 * `npm run soak -- streams [resume|line|fair] [COUNT]`: on DOCKER_HOST, with a real platform and real containers.
 * resume: a log read over COUNT (1,000) connections that are cut at random: every line exactly once.
 * line: a line of COUNT (1,024) MiB in a log that is followed: what arrives, and the memory.
 * fair: 50 followers of logs and 18 terminals, of which one floods: what the others' keys take, and the memory.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startBox } from '../support/clients/container.ts';
import { deleteAll, logIn, startPlatform } from '../support/cluster/platform.ts';
import { tinyImage } from '../support/engine/docker-client.ts';
import { crowd } from '../support/streams/crowd.ts';
import { endlessLine } from '../support/streams/endless-line.ts';
import { logResume } from '../support/streams/log-resume.ts';

const [which = 'all', count = '1000'] = process.argv.slice(2);
const disconnects = Number(count);

const folder = await mkdtemp(join(tmpdir(), 'troupe-soak-'));
const platform = await startPlatform({ data: folder, env: { DEFAULT_IMAGE: await tinyImage() } });
try {
  const { urls, admin } = platform.ready;
  const token = await logIn(urls.auth, admin.username, admin.password ?? '');
  try {
    if (which === 'all' || which === 'resume') {
      const box = await startBox(urls.compute, token, folder);
      const report = await logResume(box, token, { disconnects, lines: disconnects * 20, mostTaken: 60 });
      process.stdout.write(`resume: ${JSON.stringify(report)}\n`);
      if (report.problems.length > 0 || report.connections < disconnects) process.exitCode = 1;
    }
    if (which === 'all' || which === 'line') {
      const box = await startBox(urls.compute, token, folder);
      const report = await endlessLine(
        box,
        token,
        platform.child.pid ?? 0,
        which === 'line' && process.argv[3] !== undefined ? Number(count) : 1024,
      );
      process.stdout.write(`line: ${JSON.stringify(report)}\n`);
      if (report.memoryMb.most > report.memoryMb.before + 200) process.exitCode = 1;
      await deleteAll(urls.compute, token); // A user may have three.
    }
    if (which === 'all' || which === 'fair') {
      const boxes = [await startBox(urls.compute, token, folder), await startBox(urls.compute, token, folder)];
      const report = await crowd(boxes, token, platform.child.pid ?? 0, { followers: 50, terminals: 18, seconds: 5 });
      process.stdout.write(`fair: ${JSON.stringify(report)}\n`);
    }
  } finally {
    await deleteAll(urls.compute, token);
  }
} finally {
  await platform.stop();
  await rm(folder, { recursive: true, force: true });
}
