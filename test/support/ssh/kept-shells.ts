/** Shells that are kept beside a real sshd: what tests of them share. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { after, before, type TestContext } from 'node:test';
import type { Engine } from '../../../proto/ports/engine.ts';
import type { Log } from '../../../proto/ports/log.ts';
import type { KeptShell, Shell, ShellKeeping } from '../../../proto/ports/shell.ts';
import { sshShells } from '../../../transports/ssh/shells.ts';
import { findProgram, skipUnless } from '../require.ts';
import { tempDir } from '../temp.ts';
import { until } from '../until.ts';
import { type Sshd, skipWithoutSshd, startSshd } from './sshd.ts';

export const SIZE = { cols: 80, rows: 24, term: 'xterm-256color' };
export const TIMES = { lingerMs: 30_000, lifeMs: Number.POSITIVE_INFINITY };
export const silent: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent };
export const skip = skipWithoutSshd || skipUnless(findProgram('perl') !== undefined, 'perl');
let sshd: Promise<Sshd> | undefined;

/** Has the tests of a file share an sshd. Call it at the top of the file. */
export function shareSshd(): void {
  const ends: (() => Promise<void> | void)[] = [];
  before(() => {
    if (!skip) sshd = startSshd({ after: (end) => void ends.unshift(end) });
  });
  after(async () => {
    for (const end of ends) await end();
  });
}

/** A shell with what it shows: all that came through this connection. */
export interface Seen {
  readonly shell: Shell;
  readonly kept: KeptShell;
  readonly socket: Duplex;
  text(): string;
  type(text: string): void;
}

export interface Place {
  readonly folder: string;
  /** Unless `tells`, what was seen is not said. */
  open(keeping?: Partial<ShellKeeping>, size?: typeof SIZE, tells?: boolean): Promise<Seen>;
  /** Names of the sockets of holders that live. */
  holders(): Promise<string[]>;
}

/** A folder for holders, all of which are hung up at the end. */
export async function place(t: TestContext, log: Log = silent): Promise<Place> {
  const server = await sshd;
  assert.ok(server);
  // Before the folder goes, and its sockets with it.
  const ends: (() => Promise<void>)[] = [];
  t.after(async () => {
    for (const end of ends) await end();
  });
  const folder = join(await tempDir(t), 'holders');
  const sockets: Duplex[] = [];
  const dial: Engine['dial'] = async (...args) => {
    const socket = await server.dial(...args);
    sockets.push(socket);
    return socket;
  };
  const privateKey = async () => server.user.privateKey;
  const shells = sshShells({ dial, privateKey, username: server.username, log, keepingFolder: folder });
  const holders = async () => {
    const names = await readdir(folder).catch(() => []);
    return names.filter((name) => name !== 'lock');
  };
  const open: Place['open'] = async (keeping, size = SIZE, tells = true) => {
    const wanted = { name: 'shell1', ...TIMES, ...keeping };
    const shell = await shells.open('c1', size, new AbortController().signal, wanted);
    const socket = sockets.at(-1);
    const { kept } = shell;
    if (kept === undefined) shell.close();
    assert.ok(kept !== undefined && socket !== undefined, 'the shell is kept');
    let text = '';
    shell.stream
      .on('error', () => {})
      .on('data', (chunk: Buffer) => {
        text += chunk.toString('latin1');
        if (tells) kept.seen(chunk.length);
      });
    return { shell, kept, socket, text: () => text, type: (typed) => void shell.stream.write(typed) };
  };
  ends.push(async () => {
    for (const name of await holders()) {
      if (!(await isLive(join(folder, name)))) continue;
      const { shell } = await open({ name });
      shell.close();
    }
    await until(async () => (await holders()).length === 0, { what: 'all holders have ended' });
  });
  return { folder, open, holders };
}

/** Whether somebody listens on a socket file. */
function isLive(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
    socket.on('connect', () => socket.destroy());
  });
}

/** Waits until it was shown. */
export const has = (seen: Seen, text: string | RegExp) =>
  until(() => (typeof text === 'string' ? seen.text().includes(text) : text.test(seen.text())), {
    what: `${text} in ${JSON.stringify(seen.text().slice(-300))}`,
    timeoutMs: 20_000,
  });
/** Waits until no shell is kept there. */
export const gone = (at: Place) =>
  until(async () => (await at.holders()).length === 0, { what: 'the holder has ended' });
