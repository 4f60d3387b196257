/** README's two commands on one kind of machine, as a test. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { projectRoot } from '../project.ts';
import { skipUnless, skipWithout } from '../require.ts';
import { until } from '../until.ts';
import { commandsFor } from './blocks.ts';
import { type FreshMachine, freshMachine, type MachineKind, NEEDED } from './machine.ts';
import { begin, startPlatform, stopPlatform, toEnd } from './platform.ts';

const options = {
  skip: skipWithout(...NEEDED) || skipUnless(process.getuid?.() === 0, 'a machine of its own takes root'),
  timeout: 900_000,
};

/** What README tells root to install for members. */
const [, FOR_MEMBERS = ''] =
  /`(apt-get install -y [^`]*libatomic1)`/.exec(readFileSync(join(projectRoot, 'README.md'), 'utf8')) ?? [];

/** Without them, a member is told what root should install. */
async function lackPackages(machine: FreshMachine): Promise<void> {
  await machine.asRoot('dpkg --remove uidmap docker-registry');
  const platform = begin(machine, './bin/troupe up --install');
  await until(async () => platform.isOver() || platform.printed().includes('Troupe is running.'), { what: 'up' });
  await stopPlatform(platform);
  assert.match(platform.printed(), /only root could: apt-get install uidmap docker-registry"/);
  await machine.asRoot('dpkg --remove --force-depends libatomic1');
  const refused = await toEnd(machine, './bin/troupe up --install', { fails: true });
  assert.match(refused, /is too old to run it\..*apt-get install libatomic1/);
  await machine.asRoot(FOR_MEMBERS);
}

/** Tries both on a machine of a kind. A member has what README tells root to install. */
export function bothCommandsWork(title: string, kind: MachineKind): void {
  test(`README's two commands work on ${title}`, options, async (t) => {
    const machine = await freshMachine(t, kind);
    if (kind.user === 'member') await machine.asRoot(`apt-get update && ${FOR_MEMBERS}`);
    const platform = await startPlatform(machine);
    const said = await toEnd(
      machine,
      `set -eo pipefail; echo '${platform.password}' | ./bin/troupe login --user admin --password-stdin
      ./bin/troupe key add --make; ./bin/troupe run first; ./bin/troupe exec first -- uname -n; ./bin/troupe doctor`,
    );
    assert.match(said, /^[a-z0-9]{12}\.compute\.troupe\.localhost$/m, 'a command in the container');
    assert.match(said, /^ok +docker .* answers/m);
    assert.match(said, /^Troupe can run here\.$/m);
    await stopPlatform(platform);
    if (kind.user === 'member') await lackPackages(machine);

    const [command = ''] = commandsFor('test');
    const tests = await toEnd(machine, command.replace(/npm test\b/, '$& -- test/storage/db.test test/engine/dockerd'));
    assert.match(tests, /^\d{2,} passed, 0 failed/m);
  });
}
