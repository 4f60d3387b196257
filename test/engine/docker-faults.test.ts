import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import { z } from 'zod';
import { type Engine, EngineError } from '../../proto/ports/engine.ts';
import { connectTcp } from '../../transports/engines/common/dial-tcp.ts';
import { parsePool } from '../../transports/engines/common/subnets.ts';
import { DockerClient, DockerReplyError } from '../../transports/engines/docker/api/client.ts';
import { dockerEngine } from '../../transports/engines/docker/engine.ts';
import { namingOf } from '../../transports/engines/docker/naming.ts';
import { ContainerNetworks } from '../../transports/engines/docker/network.ts';
import { collect, rejectsWith } from '../support/engine/conformance-suite.ts';
import { silentLog } from '../support/engine/docker-under-test.ts';
import { eventually } from '../support/engine/eventually.ts';

type Answer = (request: IncomingMessage, response: ServerResponse, path: string) => void;

/** A server that plays a faulty Docker Engine: `answer` gets every call but the ping, its version prefix taken off. */
describe('a faulty Docker Engine', () => {
  const folder = mkdtempSync(join(tmpdir(), 'troupe-fault-'));
  const path = join(folder, 'd.sock');
  const host = `unix://${path}`;
  let server: Server;
  let answer: Answer;
  let ping: Answer;
  let client: DockerClient;
  let engine: Engine;

  const good: Answer = (_request, response) => response.setHeader('api-version', '1.41').end('OK');
  const json = (response: ServerResponse, status: number, value: unknown): void => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  };

  before(async () => {
    server = createServer((request, response) => {
      request.resume();
      const url = request.url ?? '';
      if (url === '/_ping') ping(request, response, url);
      else answer(request, response, url.replace(/^\/v[\d.]+/, '').replace(/\?.*/, ''));
    });
    await new Promise<void>((resolve) => server.listen(path, resolve));
  });
  const begin = async (first: Answer, firstPing: Answer = good, renewMs = 60_000): Promise<void> => {
    answer = first;
    ping = firstPing;
    client = new DockerClient(host);
    const base = { reference: 'troupe/none:1', build: async () => undefined };
    engine = await dockerEngine({
      host,
      installation: 'f',
      log: silentLog,
      images: { base },
      watchTimes: { firstDelayMs: 5, longestDelayMs: 20, checkMs: 20, renewMs },
    });
  };
  afterEach(async () => {
    await engine.close();
    client.close();
    server.closeAllConnections();
  });
  after(async () => {
    await new Promise((resolve) => server.close(resolve));
    rmSync(folder, { recursive: true });
  });

  it('of API 1.24 is refused by name', async () => {
    await begin(good, (_request, response) => response.setHeader('api-version', '1.24').end('OK'));
    await assert.rejects(engine.check(), /speaks API version 1\.24; 1\.40 or later/);
  });

  it('that has lost its chain in the firewall for a moment makes the network all the same', async () => {
    const lost =
      'Failed to program NAT chain: iptables failed: iptables --wait -t nat -A PREROUTING -j DOCKER: ' +
      "iptables v1.8.9 (nf_tables): Chain 'DOCKER' does not exist (exit status 2)";
    let creations = 0;
    await begin((_request, response, path) => {
      if (path !== '/networks/create' && creations === 3)
        json(response, 200, { Id: 'n', Name: path.slice('/networks/'.length) });
      else if (path !== '/networks/create') json(response, 404, { message: 'no such network' });
      else if (++creations < 3) json(response, 500, { message: lost });
      else json(response, 201, { Id: 'n' });
    });
    const networks = new ContainerNetworks(client, namingOf('f'), parsePool('10.192.0.0/10'));
    assert.equal(await networks.ensure('a'), networks.bridge('a'));
    assert.equal(creations, 3);
  });

  it('that answers 500 is unavailable, with its own words kept on one line', async () => {
    await begin((_request, response) => json(response, 500, { message: 'disk\n\u001b[31mfull' }));
    await assert.rejects(engine.inspect('a'), (error: unknown) => {
      assert.ok(error instanceof DockerReplyError);
      assert.equal(error.code, 'unavailable');
      assert.equal(error.message, 'disk [31mfull');
      return true;
    });
  });

  it('that says nothing, too much, or something else is unavailable', async () => {
    await begin(() => undefined);
    await rejectsWith(client.call('GET', '/x', { timeoutMs: 30 }), 'unavailable');
    answer = (_request, response) => response.end(Buffer.alloc(10_000));
    await rejectsWith(client.call('GET', '/x', { maxBytes: 1000 }), 'unavailable');
    answer = (_request, response) => response.write('half an answer');
    await rejectsWith(client.call('GET', '/x', { timeoutMs: 30 }), 'unavailable');
    answer = (_request, response) => response.end('<html>');
    await rejectsWith(client.json('GET', '/x', z.object({})), 'unavailable');
    answer = (_request, response) => json(response, 200, { a: 1 });
    await rejectsWith(client.json('GET', '/x', z.object({ b: z.string() })), 'unavailable');
    answer = (_request, response) => response.socket?.destroy();
    await rejectsWith(client.call('GET', '/x'), 'unavailable');
  });

  it('is asked anew after a change: a look that began before does not answer', async () => {
    const held: (() => void)[] = [];
    let isChanged = false;
    await begin((request, response, path) => {
      const reply = () => json(response, 404, { message: `no such thing: ${path}` });
      if (request.method !== 'GET') isChanged = true;
      if (path.startsWith('/containers/') && path.endsWith('/json') && !isChanged) held.push(reply);
      else if (['/containers/json', '/networks', '/images/json'].includes(path)) json(response, 200, []);
      else if (path === '/volumes') json(response, 200, { Volumes: [] });
      else reply();
    });
    const before = [engine.inspect('a'), engine.inspect('a')];
    await eventually(() => assert.equal(held.length, 1, 'questions at a time share an answer'));
    isChanged = true;
    await engine.remove('b');
    assert.equal(await engine.inspect('a'), undefined);
    assert.equal(held.length, 1);
    for (const reply of held) reply();
    assert.deepEqual(await Promise.all(before), [undefined, undefined]);
  });

  it('that closed a kept connection is asked again on a new one', async () => {
    let calls = 0;
    await begin((_request, response) => {
      calls += 1;
      if (calls === 2) response.socket?.destroy();
      else json(response, 200, { calls });
    });
    await client.call('GET', '/x');
    const second = await client.json('GET', '/x', z.object({ calls: z.number() }));
    assert.equal(second.calls, 3);
  });

  it('that was replaced by one of another version is spoken to anew', async () => {
    await begin((request, response) => {
      if (request.url?.startsWith('/v1.41/')) json(response, 400, { message: 'client version 1.41 is too old.' });
      else json(response, 200, {});
    });
    await rejectsWith(client.call('GET', '/x'), 'refused');
    ping = (_request, response) => response.setHeader('api-version', '1.45').end('OK');
    await client.call('GET', '/x');
  });

  it('that cuts the events again and again is connected to again, each time with a look at all', async () => {
    const event = {
      Type: 'container',
      Action: 'die',
      Actor: { Attributes: { 'troupe.installation': 'f', 'troupe.container': 'a', name: 'troupe-f-a' } },
    };
    await begin((_request, response) => {
      response.write(`${JSON.stringify(event)}\ngarbage\n{"Type":"conta`);
      setTimeout(() => response.socket?.destroy(), 5);
    });
    const seen: (string | undefined)[] = [];
    const watch = engine.watch((id) => seen.push(id));
    await eventually(() => assert.ok(seen.filter((id) => id === undefined).length >= 3, 'too few looks'));
    assert.ok(seen.includes('a'));
    await watch.close();
  });

  it('whose events went silent is noticed', async () => {
    let connections = 0;
    await begin((_request, response, called) => {
      if (called !== '/events') return json(response, 200, []);
      connections += 1;
      response.flushHeaders();
    });
    const watch = engine.watch(() => undefined);
    await eventually(() => assert.equal(connections, 1));
    ping = (_request, response) => response.socket?.destroy();
    await eventually(() => assert.ok(connections > 1, 'not noticed'));
    await watch.close();
  });

  it('is subscribed to anew from time to time', async () => {
    let connections = 0;
    await begin(
      (_request, response, called) => {
        if (called !== '/events') return json(response, 200, []);
        connections += 1;
        response.flushHeaders();
      },
      good,
      10,
    );
    const watch = engine.watch(() => undefined);
    await eventually(() => assert.ok(connections >= 3, 'not renewed'));
    await watch.close();
  });

  it('whose log is garbled or breaks off is unavailable, not ended', async () => {
    const view = {
      Id: 'f00',
      State: { Status: 'running', Running: true, ExitCode: 0, StartedAt: '0001-01-01T00:00:00Z' },
      Name: '/troupe-f-a',
      Config: { Labels: { 'troupe.installation': 'f', 'troupe.container': 'a' } },
      HostConfig: {},
      NetworkSettings: {},
    };
    let body = Buffer.from('this is not framed');
    let cut = false;
    await begin((_request, response, called) => {
      if (!called.endsWith('/logs')) return json(response, 200, view);
      if (!cut) return response.end(body);
      response.write(body);
      setTimeout(() => response.socket?.destroy(), 5);
    });
    await rejectsWith(collect(engine, 'a', {}), 'unavailable');
    body = Buffer.concat([Buffer.from([1, 0, 0, 0, 0, 0, 0, 3]), Buffer.from('abc')]);
    cut = true;
    await rejectsWith(collect(engine, 'a', { follow: true }), 'unavailable');
    await rejectsWith(engine.dial('a', 22, { timeoutMs: 100 }), 'unavailable');
  });

  it("that shows a terminal's log has it read without frames", async () => {
    const view = {
      Id: 'f00',
      State: { Status: 'exited', Running: false, ExitCode: 0, StartedAt: '0001-01-01T00:00:00Z' },
      Name: '/troupe-f-a',
      Config: { Tty: true, Labels: { 'troupe.installation': 'f', 'troupe.container': 'a' } },
      HostConfig: {},
      NetworkSettings: {},
    };
    await begin((_request, response, called) => {
      if (called.endsWith('/logs'))
        response.end('2024-01-01T00:00:00.000000001Z one\r\n2024-01-01T00:00:00.000000002Z two\r\n');
      else json(response, 200, view);
    });
    assert.deepEqual(await collect(engine, 'a', {}), [
      '2024-01-01T00:00:00.000000001Z one',
      '2024-01-01T00:00:00.000000002Z two',
    ]);
  });

  it("that cannot pull an image passes the registry's reason on", async () => {
    await begin((request, response, called) => {
      if (called === '/images/create') {
        assert.match(request.url ?? '', /fromImage=docker.io%2Fa%2Fb&tag=latest/);
        response.end(
          '{"status":"Pulling from a/b","id":"latest"}\n{"error":"manifest unknown","errorDetail":{"message":"manifest unknown"}}\n',
        );
      } else json(response, 404, { message: 'No such image' });
    });
    const lines: string[] = [];
    await assert.rejects(
      engine.ensureImage('a/b', { always: false, onProgress: (line) => lines.push(line) }),
      (error: unknown) =>
        error instanceof EngineError && error.code === 'image_not_found' && /manifest unknown/.test(error.message),
    );
    assert.deepEqual(lines, ['latest: Pulling from a/b']);
    answer = (_request, response) => json(response, 404, { message: 'pull access denied for a/b' });
    await rejectsWith(engine.ensureImage('a/b', { always: true }), 'image_not_found');
  });

  it('that pulls for two at once is asked once, and told to stop when both have left', async () => {
    let pulls = 0;
    let cut = 0;
    await begin((_request, response, called) => {
      if (called !== '/images/create') return json(response, 404, { message: 'No such image' });
      pulls += 1;
      response.on('close', () => {
        cut += 1;
      });
      response.write('{"status":"Downloading","id":"1","progressDetail":{"current":1,"total":4}}\n');
    });
    const [a, b] = [new AbortController(), new AbortController()];
    const lines: string[] = [];
    const first = engine.ensureImage('a/b', { always: true, signal: a.signal, onProgress: (line) => lines.push(line) });
    const second = engine.ensureImage('a/b', { always: true, signal: b.signal });
    const both = Promise.all([rejectsWith(first, 'unavailable'), rejectsWith(second, 'unavailable')]);
    await eventually(() => assert.deepEqual(lines, ['1: Downloading 25%']));
    a.abort();
    await rejectsWith(first, 'unavailable');
    assert.equal(cut, 0);
    b.abort();
    await both;
    await eventually(() => assert.equal(cut, 1));
    assert.equal(pulls, 1);
  });

  it('that has given a subnet to somebody else is asked for another', async () => {
    const asked: string[] = [];
    const network = (Subnet: string) => ({ Id: 'n', Name: 'n', IPAM: { Config: [{ Subnet }] } });
    await begin((request, response, called) => {
      if (called === '/info') return json(response, 200, { NCPU: 2 });
      if (called === '/networks') return json(response, 200, [network('10.0.0.0/9'), network('fe80::/64')]);
      if (called.startsWith('/networks/') && !called.endsWith('/create') && asked.length === 3)
        return json(response, 200, { Id: 'n1', Name: called.slice('/networks/'.length) });
      if (called !== '/networks/create') return json(response, called.startsWith('/containers/json') ? 200 : 404, []);
      let text = '';
      request.on('data', (chunk) => {
        text += chunk;
      });
      request.on('end', () => {
        asked.push(JSON.parse(text).IPAM.Config[0].Subnet);
        if (asked.length < 3) json(response, 403, { message: 'Pool overlaps with other one on this address space' });
        else json(response, 201, { Id: 'n1' });
      });
    });
    const spec = {
      id: 'a',
      userId: 'u',
      hostname: 'h',
      image: 'a/b',
      cpus: 1,
      memoryMb: 128,
      storageGb: 1,
      mountPaths: [],
      authorizedKeys: [],
    };
    await rejectsWith(engine.create(spec), 'image_not_found');
    assert.equal(new Set(asked).size, 3);
    assert.ok(asked.every((subnet) => /^10\.(19[2-9]|2[0-5]\d)\.\d+\.\d+\/29$/.test(subnet)));
  });

  /** A container that was never started, and a Docker Engine that answers its starts like so. */
  const unstartable = async (answers: { status: number; message: string }[]): Promise<string[]> => {
    const calls: string[] = [];
    const view = {
      ...{
        Id: 'f00',
        Name: '/troupe-f-a',
        Config: { Labels: { 'troupe.installation': 'f', 'troupe.container': 'a' } },
      },
      ...{ State: { Status: 'created', Running: false, ExitCode: 0, StartedAt: '0001-01-01T00:00:00Z' } },
      ...{ HostConfig: {}, NetworkSettings: { Networks: { 'troupe-f-a': { IPAddress: '' } } } },
    };
    await begin((request, response, called) => {
      if (called.endsWith('/start') || request.method === 'DELETE') calls.push(`${request.method} ${called}`);
      if (called.endsWith('/start')) {
        const { status, message } = answers.shift() ?? { status: 204, message: '' };
        return json(response, status, { message });
      }
      if (called === '/networks/troupe-f-a') return json(response, 200, { Id: 'n', Name: 'troupe-f-a' });
      return json(response, 200, called.endsWith('/json') ? view : {});
    });
    return calls;
  };

  it('that lost track of a container starts it once what runs of it was ended', async () => {
    const lost = { status: 500, message: 'id already in use' };
    const calls = await unstartable([lost, { status: 409, message: 'task f00 already exists: unknown' }]);
    await engine.start('a', []);
    assert.deepEqual(calls, Array(3).fill('POST /containers/f00/start'));
  });

  it('that never finds back to a container has it removed, to be made anew', async () => {
    const calls = await unstartable(Array(100).fill({ status: 500, message: 'id already in use' }));
    await assert.rejects(engine.start('a', []), /lost track of the container: it is made anew/);
    assert.equal(calls.at(-1), 'DELETE /containers/f00');
  });

  it('that cannot start what never ran has it removed, too; not when somebody else removes it', async () => {
    const calls = await unstartable([{ status: 500, message: 'network sandbox not found' }]);
    await rejectsWith(engine.start('a', []), 'unavailable');
    assert.deepEqual(calls, ['POST /containers/f00/start', 'DELETE /containers/f00']);
    calls.length = 0;
    await engine.close();
    client.close();
    const others = await unstartable([{ status: 409, message: 'removal in progress' }]);
    await rejectsWith(engine.start('a', []), 'unavailable');
    assert.deepEqual(others, ['POST /containers/f00/start']);
  });

  it('that does not open a shell says why', async () => {
    const view = {
      Id: 'f00',
      State: { Status: 'running', Running: true, ExitCode: 0, StartedAt: '0001-01-01T00:00:00Z' },
      Name: '/troupe-f-a',
      Config: { Labels: { 'troupe.installation': 'f', 'troupe.container': 'a' } },
      HostConfig: {},
      NetworkSettings: {},
    };
    let start: Answer = (_request, response) => json(response, 409, { message: 'container is not running' });
    await begin((request, response, called) => {
      if (called === '/containers/f00/exec') return json(response, 201, { Id: 'e1' });
      if (called === '/exec/e1/start') return start(request, response, called);
      json(response, 200, view);
    });
    const open = () =>
      engine.exec('a', { cols: 80, rows: 24, term: '-x', command: ['true'] }, new AbortController().signal);
    await rejectsWith(open(), 'not_running');
    start = (_request, response) => json(response, 404, { message: 'No such container' });
    await rejectsWith(open(), 'not_found');
    start = (_request, response) => json(response, 500, { message: 'OCI runtime exec failed: no such file' });
    await rejectsWith(open(), 'refused');
    start = (_request, response) => json(response, 503, { message: 'later' });
    await rejectsWith(open(), 'unavailable');
    start = (_request, response) => json(response, 200, {});
    await rejectsWith(open(), 'unavailable');
    start = (_request, response) => response.socket?.destroy();
    await rejectsWith(open(), 'unavailable');
    await rejectsWith(client.hijack('/exec/e2/start', {}, 1), 'unavailable');
    for (const said of ['', 'sh: something else', 'x'.repeat(5000)]) {
      start = (_request, response) => {
        response.socket?.end(`HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n${said}`);
      };
      await rejectsWith(open(), 'refused');
    }
  });

  it('does not hold up the end of the platform while it hangs', async () => {
    await begin((_request, response, called) => {
      if (called === '/events') response.flushHeaders();
    });
    await new Promise<void>((resolve) => engine.watch(() => resolve()));
    await engine.close();
  });

  it('that is gone is unavailable', async () => {
    await begin(good);
    const gone = new DockerClient(`unix://${folder}/none.sock`);
    await rejectsWith(gone.call('GET', '/x'), 'unavailable');
    gone.close();
  });
});

describe('dialling', () => {
  it('gives up in time, and when told to', async () => {
    // 192.0.2.0/24 is set aside for documentation (RFC 5737): nothing answers there.
    const stop = new AbortController();
    const dialled = connectTcp('192.0.2.77', 9, 60_000, stop.signal);
    stop.abort();
    await rejectsWith(dialled, 'unavailable');
    await rejectsWith(connectTcp('192.0.2.77', 9, 20), 'unavailable');
  });
});
