/** What a start waits for on Docker: a registry that does not answer, and an SSH server that is not there. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { EngineError } from '../../proto/ports/engine.ts';
import { dockerSkip, dockerUnderTest } from '../support/engine/docker-under-test.ts';
import { freePort } from '../support/temp.ts';
import { until } from '../support/until.ts';

describe('a start on docker', { skip: dockerSkip() }, () => {
  let under: Awaited<ReturnType<typeof dockerUnderTest>>;
  before(async () => {
    under = await dockerUnderTest();
    await under.engine.ensureImage(under.image, { always: false });
  });
  after(() => under?.end());

  it('says that a registry keeps silent', async (t) => {
    const sockets = new Set<Socket>();
    const server = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => {});
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    const address = server.address();
    assert.ok(typeof address === 'object' && address !== null);
    const lines: string[] = [];
    const giveUp = new AbortController();
    const image = `127.0.0.1:${address.port}/ann/app:1`;
    const pulling = under.engine
      .ensureImage(image, { always: false, signal: giveUp.signal, onProgress: (line) => lines.push(line) })
      .catch((error: unknown) => error);
    const said = new RegExp(`^The registry of ${image} is asked for it and has not answered for \\d+ s\\.$`);
    await until(() => lines.some((line) => said.test(line)), { what: 'it is told of' });
    giveUp.abort();
    await pulling;
  });

  it('fails for now when the registry refuses the connection', async () => {
    const image = `127.0.0.1:${await freePort()}/ann/app:1`;
    const error = await under.engine.ensureImage(image, { always: false }).catch((cause: unknown) => cause);
    assert.ok(error instanceof EngineError && error.code === 'unavailable', String(error));
    assert.match(error.message, /cannot be pulled: .*connection refused/);
  });

  it('knows by its files whether a container has an SSH server', async () => {
    const spec = {
      id: 'none',
      userId: 'u1',
      hostname: 'box',
      image: under.image,
      cpus: 1,
      memoryMb: 128,
      storageGb: 1,
    };
    await under.engine.create({ ...spec, mountPaths: [], authorizedKeys: [] });
    await under.engine.start('none', []);
    assert.equal(await under.engine.hasSshServer('none'), true);
    await under.exec('none', 'rm /usr/sbin/sshd');
    assert.equal(await under.engine.hasSshServer('none'), false);
    await under.engine.remove('none');
  });
});
