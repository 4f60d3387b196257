/** Which SSH sessions are hung up when the keys of a container change. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { endSessionsScript } from '../../transports/engines/common/ssh-sessions.ts';
import { perlImage, skipWithoutDocker } from '../support/engine/docker-client.ts';
import { dockerUnderTest } from '../support/engine/docker-under-test.ts';
import { until } from '../support/until.ts';

const KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKeptKeptKeptKeptKeptKeptKeptKeptKeptKeptKep kept';

/** Looks like a session of sshd: begins its process, which knows the key from a file, once there is a file to say so. */
const SESSION = `$0 = "sshd: root\\@notty"; my ($key, $go) = @ARGV;
open my $own, ">", "/tmp/$key.pid"; print $own $$; close $own;
select undef, undef, undef, 0.02 until -e $go;
if (-e "/tmp/$key" && !fork) { $ENV{SSH_USER_AUTH} = "/tmp/$key"; exec "sleep", "600" }
sleep 600;`;

describe('when the keys of a container change', { skip: skipWithoutDocker() }, () => {
  let under: Awaited<ReturnType<typeof dockerUnderTest>>;
  before(async () => {
    under = await dockerUnderTest();
    const image = await perlImage();
    await under.engine.create({
      ...{ id: 'keys', userId: 'u1', hostname: 'box', image, cpus: 1, memoryMb: 128, storageGb: 1 },
      ...{ mountPaths: [], authorizedKeys: [] },
    });
    await under.engine.start('keys', [KEY]);
  });
  after(() => under?.end());

  it('a session of a key that stays goes on, also one that has no process yet; all others are hung up', async () => {
    const run = async (script: string) => (await under.exec('keys', script)).toString().replaceAll('\r\n', '\n').trim();
    const names = ['kept', 'late', 'gone', 'silent'];
    await run(`for f in kept late; do echo 'publickey ${KEY.split(' ').slice(0, 2).join(' ')}' >/tmp/$f; done
      echo 'publickey ssh-ed25519 AAAAgone' >/tmp/gone; touch /tmp/now
      cat >/tmp/session.pl <<'END'\n${SESSION}\nEND
      for f in ${names.join(' ')}; do
        go=/tmp/now; [ $f = late ] && go=/tmp/later
        setsid perl /tmp/session.pl $f $go </dev/null >/dev/null 2>&1 &
      done
      # Not before: the terminal of this call takes along what has not left it.
      for f in ${names.join(' ')}; do until [ -s /tmp/$f.pid ]; do sleep 0.1; done; done`);
    const told = 'grep -l SSH_USER_AUTH=/tmp/ /proc/[0-9]*/environ | wc -l';
    await until(async () => (await run(told)) === '2', { what: 'two sessions have their processes' });
    await run(`(sleep 0.3; touch /tmp/later) & ${endSessionsScript.replace(/\nexit 0$/, '')}`);
    const alive = await run(
      `for f in ${names.join(' ')}; do grep -qs sshd: /proc/$(cat /tmp/$f.pid)/cmdline && echo $f; done`,
    );
    assert.equal(alive, 'kept\nlate');
  });
});
