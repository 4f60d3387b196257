import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { EngineError } from '../../proto/ports/engine.ts';
import { dockerAddress } from '../../transports/engines/docker/api/address.ts';
import { DockerClient } from '../../transports/engines/docker/api/client.ts';
import { findDocker } from '../../transports/engines/docker/host/find-docker.ts';
import { dockerdInstalled } from '../../transports/engines/docker/host/private-dockerd.ts';
import { isRoot } from '../../transports/engines/docker/run.ts';
import { execConformance } from '../support/engine/conformance-exec.ts';
import { collect, Suite, textOfLine } from '../support/engine/conformance-suite.ts';
import { dockerUnderTest, realRequired } from '../support/engine/docker-under-test.ts';
import { eventually } from '../support/engine/eventually.ts';
import { type RemoteDocker, startRemoteDocker } from '../support/engine/remote-docker.ts';
import { tinyImageMissing } from '../support/engine/tiny-image.ts';

function skip(): string | false {
  if (realRequired) return false;
  if (!isRoot() || !dockerdInstalled() || !existsSync('/usr/sbin/sshd'))
    return 'needs root, docker.io and openssh-server';
  return tinyImageMissing() ?? false;
}

describe('a Docker Engine of another machine', { skip: skip() }, () => {
  let remote: RemoteDocker;
  before(async () => {
    remote = await startRemoteDocker();
  });
  after(() => remote?.end());

  const tls = (certs: string, host = '127.0.0.1') =>
    dockerAddress({
      DOCKER_HOST: `tcp://${host}:${remote.tlsPort}`,
      DOCKER_TLS_VERIFY: '1',
      DOCKER_CERT_PATH: certs,
    }) ?? '';
  const ssh = (config: string) => {
    const socket = remote.host.slice('unix://'.length);
    const DOCKER_HOST = `ssh://root@127.0.0.1:${remote.sshPort}${socket}`;
    return dockerAddress({ DOCKER_HOST, DOCKER_SSH_CONFIG: config }) ?? '';
  };
  const rejected = async (address: string, expected: RegExp): Promise<void> => {
    const client = new DockerClient(address);
    try {
      await assert.rejects(client.ping(), (error: unknown) => {
        assert.ok(error instanceof EngineError);
        assert.match(error.message, expected);
        return true;
      });
    } finally {
      client.close();
    }
  };

  for (const way of ['TLS', 'SSH'] as const) {
    describe(`over ${way}`, () => {
      let under: Awaited<ReturnType<typeof dockerUnderTest>>;
      let suite: Suite;
      before(async () => {
        const address = way === 'TLS' ? tls(remote.certs) : ssh(remote.sshConfig);
        const docker = { host: remote.host, end: async () => undefined };
        under = await dockerUnderTest({ docker, address });
        suite = new Suite(under);
        await under.engine.ensureImage(under.image, { always: false });
      });
      after(() => under?.end());

      execConformance(() => suite);

      it('tells of changes, and follows logs', async () => {
        const seen = new Set<string | undefined>();
        const watch = under.engine.watch((id) => seen.add(id));
        const id = await suite.started();
        await under.print(id, ['hello from afar']);
        await eventually(async () => {
          const lines = await collect(under.engine, id, {});
          assert.ok(lines.some((line) => textOfLine(line) === 'hello from afar'));
        });
        await under.kill(id);
        await eventually(() => assert.ok(seen.has(id)));
        await watch.close();
      });
    });
  }

  it('is found by what Docker’s own tools go by', async () => {
    const env = { DOCKER_HOST: `tcp://localhost:${remote.tlsPort}`, DOCKER_TLS_VERIFY: '1' };
    assert.equal(
      await findDocker({ ...env, DOCKER_CERT_PATH: remote.certs }),
      `tls://localhost:${remote.tlsPort}?${new URLSearchParams({ certs: remote.certs })}`,
    );
    assert.equal(await findDocker({ ...env, DOCKER_CERT_PATH: '/nowhere' }), undefined);
  });

  it('is not talked to when its certificate, or ours, is of another authority', async () => {
    await rejected(tls(remote.strangersCerts), /certificate|alert/i);
    await rejected(
      tls('/nowhere'),
      /ca\.pem cannot be read: TLS to a Docker Engine takes ca\.pem, cert\.pem and key\.pem/,
    );
  });

  it('is not talked to when its host key is another than the known one', async () => {
    await rejected(ssh(remote.strangersConfig), /by ssh to 127\.0\.0\.1: .*Host key verification failed/i);
  });

  it('leaves no ssh behind', async (t) => {
    const client = new DockerClient(ssh(remote.sshConfig));
    t.after(() => client.close());
    const running = (): string[] =>
      readdirSync('/proc').filter((pid) => {
        try {
          return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(remote.sshConfig);
        } catch {
          return false;
        }
      });
    await Promise.all([client.ping(), client.ping()]);
    assert.notDeepEqual(running(), []);
    // One whose connection was lost is opened anew.
    for (const pid of running()) process.kill(Number(pid), 'SIGKILL');
    await eventually(() => client.ping());
    client.close();
    await eventually(() => assert.deepEqual(running(), []));
  });
});
