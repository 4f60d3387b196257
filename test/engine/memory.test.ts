import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import { EngineError, type OnceOutcome } from '../../proto/ports/engine.ts';
import { engineConformance } from '../support/engine/conformance.ts';
import { rejectsWith } from '../support/engine/conformance-suite.ts';
import { duplexPair, type MemoryOnce, memoryEngine } from '../support/engine/memory-engine.ts';
import { memoryShell } from '../support/engine/memory-shell.ts';
import { perlCommands } from '../support/exec/memory-perl.ts';
import { findProgram } from '../support/require.ts';
import { until } from '../support/until.ts';

const registryImage = 'registry.test/alice/app:1';
const alice = { username: 'alice', password: 'correct horse' };

/** Runs it here. */
const byShell = async ({ workload, signal }: MemoryOnce): Promise<OnceOutcome> => {
  const [program = '', ...words] = workload.command ?? [];
  // In a group of its own, so that what a shell has begun ends with it.
  const child = spawn(program, words, { env: { ...workload.env }, detached: true });
  const end = () => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) process.kill(-child.pid);
  };
  signal.addEventListener('abort', end, { once: true });
  const exit = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const lines = (await text(child.stdout)).split('\n').filter((line) => line !== '');
  const code = await exit;
  return { exitCode: code, oomKilled: false, lines: lines.slice(-20).map((line) => `1970-01-01T00:00:00Z ${line}`) };
};

engineConformance(
  'memory',
  async () => {
    const engine = memoryEngine({
      images: [registryImage],
      mayPull: (_image, auth) => auth !== undefined && 'username' in auth && auth.username === alice.username,
      onExec: memoryShell,
      onRun: perlCommands,
      hasSuccessors: true,
      onOnce: byShell,
    });
    const commandFolder = join(await mkdtemp(join(tmpdir(), 'troupe-test-')), 'holders');
    const holders = () => (existsSync(commandFolder) ? readdirSync(commandFolder) : []);
    return {
      engine,
      image: engine.baseImage,
      registry: { image: registryImage, auth: alice, publish: async () => engine.publish(registryImage) },
      kill: async (id) => engine.crash(id),
      removeContainer: async (id) => engine.lose(id),
      writeFile: async (id, path, text) => void engine.files(id)?.set(path, text),
      readFile: async (id, path) => engine.files(id)?.get(path),
      print: async (id, lines, stream) => engine.print(id, lines, stream),
      seen: async (id) => {
        const { env = {}, entrypoint = [], command, workingDir = '/' } = engine.workloadOf(id) ?? {};
        const words = [...entrypoint, ...(command ?? (entrypoint.length === 0 ? ['serve'] : []))];
        return { env, words, folder: workingDir };
      },
      description: async (id) => JSON.stringify([await engine.inspect(id), engine.specOf(id)]),
      runsScripts: false,
      cut: async () => engine.reconnect(),
      again: async () => engine,
      commandFolder,
      connects: async (from, host, port) => {
        const to = engine.named(from, host);
        if (to === undefined) return false;
        (await engine.dial(to, port, { timeoutMs: 1000 })).destroy();
        return true;
      },
      end: async () => {
        await engine.close();
        await until(() => holders().every((name) => name === 'lock'), { what: 'no command is kept' });
        await rm(join(commandFolder, '..'), { recursive: true });
      },
    };
  },
  {
    parts: {
      registry: true,
      privateNetworks: true,
      successors: true,
      once: true,
      perl: findProgram('perl') !== undefined,
    },
  },
);

describe('memory engine', () => {
  it('fails as often as it is told to', async () => {
    const engine = memoryEngine();
    engine.fail('check', new EngineError('unavailable', 'gone'), 2);
    await rejectsWith(engine.check(), 'unavailable');
    await rejectsWith(engine.check(), 'unavailable');
    assert.match(await engine.check(), /memory/);
    await engine.close();
  });

  it('holds a call back until released', async () => {
    const engine = memoryEngine();
    const release = engine.hold('list');
    let done = false;
    const listing = engine.list().then(() => {
      done = true;
    });
    await engine.check();
    assert.equal(done, false);
    release();
    await listing;
    await engine.close();
  });

  it('carries bytes both ways through a pair, and the end', async () => {
    const [a, b] = duplexPair();
    const read = (stream: Duplex): Promise<Buffer> =>
      new Promise((resolve, reject) => {
        const chunks: Buffer[] = [];
        stream.on('data', (chunk: Buffer) => chunks.push(chunk));
        stream.once('end', () => resolve(Buffer.concat(chunks)));
        stream.once('error', reject);
      });
    const large = Buffer.alloc(1_000_000, 'x');
    a.end(large);
    assert.ok((await read(b)).equals(large));
    b.end('back');
    assert.equal((await read(a)).toString(), 'back');
  });
});
