/** What a container with settings runs on Docker: its words, its files, and what a shell makes of them. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { quotedWord } from '../../lib/shell-word.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { environmentScript } from '../../transports/engines/common/workload.ts';
import { isWrapped, unwrapped, workloadFiles, wrapped } from '../../transports/engines/docker/workload.ts';

const run = promisify(execFile);
const image = { Entrypoint: ['/entry', '-x'], Cmd: ['one', 'two'] };
const textOf = (files: ReturnType<typeof workloadFiles>, path: string): string => {
  const file = files.find((one) => one.path === path);
  assert.ok(file?.kind === 'file');
  return Buffer.from(file.data).toString();
};
const lastLine = (settings: object): string => {
  const files = workloadFiles(wrapped(image), '', { env: {}, ...settings });
  return textOf(files, 'etc/troupe/run').trimEnd().split('\n').at(-1) ?? '';
};

test('what an image runs is found again in what a container with settings runs', () => {
  for (const own of [image, { Entrypoint: null, Cmd: ['x'] }, { Entrypoint: ['e'], Cmd: null }]) {
    assert.ok(!isWrapped(own));
    assert.ok(isWrapped(wrapped(own)));
    assert.deepEqual(unwrapped(wrapped(own)), { Entrypoint: own.Entrypoint ?? [], Cmd: own.Cmd ?? [] });
  }
  assert.equal(unwrapped(image), image);
});

test('entrypoint and command are combined by the rules of images', () => {
  assert.equal(lastLine({}), "exec '/entry' '-x' 'one' 'two'");
  assert.equal(lastLine({ command: ['three'] }), "exec '/entry' '-x' 'three'");
  assert.equal(lastLine({ entrypoint: ['sh'] }), "exec 'sh'");
  assert.equal(lastLine({ entrypoint: ['sh'], command: ['-c', "it's"] }), "exec 'sh' '-c' 'it'\\''s'");
  const nothing = () => workloadFiles(wrapped({ Entrypoint: null, Cmd: null }), '', { env: { A: '1' } });
  assert.throws(nothing, (error) => error instanceof EngineError && error.code === 'refused');
});

test('its files are for the user that the image names, and for nobody else where that is a number', () => {
  const of = (user: string) =>
    workloadFiles(wrapped(image), user, { env: {} }).map((file) => file.kind === 'file' && [file.owner, file.mode]);
  for (const user of ['', 'root', '0', '0:0']) assert.deepEqual(of(user), Array(2).fill([0, 0o400]), user);
  for (const user of ['1000', '1000:5']) assert.deepEqual(of(user), Array(2).fill([1000, 0o400]), user);
  // Neither can be found out, nor be named in an archive.
  for (const user of ['node', 'node:node', '4000000000']) assert.deepEqual(of(user), Array(2).fill([0, 0o444]), user);
});

test('a shell exports each value as it is, and none is taken for more than that', async () => {
  const env = {
    PLAIN: 'a b',
    QUOTES: `it's "$HOME" \`id\` $(id) \\ '; exit 1; '`,
    LINES: 'one\ntwo\n',
    WIDE: 'ä€😀',
    EMPTY: '',
  };
  const script = `${environmentScript(env)}exec env -0`;
  const { stdout } = await run('/bin/sh', ['-c', script], { env: { PATH: process.env.PATH ?? '' } });
  for (const [name, value] of Object.entries(env)) assert.ok(stdout.split('\0').includes(`${name}=${value}`), name);
  // bash keeps this one to itself.
  const bash = await run('/bin/sh', ['-c', `${environmentScript({ UID: '7', LATER: 'yes' })}printf %s "$LATER"`]);
  assert.equal(bash.stdout, 'yes');
  assert.equal((await run('/bin/sh', ['-c', `printf %s ${quotedWord("a'b")}`])).stdout, "a'b");
});
