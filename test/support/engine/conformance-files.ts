import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { it } from 'node:test';
import { type TarEntry, tar } from '../../../lib/tar.ts';
import { TarScanner } from '../../../lib/tar-scanner.ts';
import { FileError, type FileErrorCode } from '../../../proto/ports/files.ts';
import { rejectsWith, type Suite } from './conformance-suite.ts';

const never = new AbortController().signal;
const file = (path: string, text: string): TarEntry => ({ kind: 'file', path, mode: 0o640, data: Buffer.from(text) });
const archive = (...entries: TarEntry[]) => Readable.from([tar(entries, 1_700_000_000)]);

async function rejectsFile(promise: Promise<unknown>, code: FileErrorCode): Promise<void> {
  await assert.rejects(promise, (error: unknown) => {
    assert.ok(error instanceof FileError, String(error));
    assert.equal(error.code, code, error.message);
    return true;
  });
}

/** The contents of all entries of an archive, one after the other. */
async function contents(stream: Readable): Promise<string> {
  const parts: Buffer[] = [];
  for (const part of new TarScanner().push(await buffer(stream))) if (part.kind === 'content') parts.push(part.data);
  return Buffer.concat(parts).toString();
}

/** What `Engine.fileAccess` promises. */
export function filesConformance(suite: () => Suite): void {
  it('writes files, says what they are, reads them and removes them', async () => {
    const { engine, under } = suite();
    const { fileAccess } = engine;
    const id = await suite().started();
    await fileAccess.write(id, '/', archive(file('root/new/one', 'first'), file('root/new/two', 'second')), never);
    assert.equal(await under.readFile(id, '/root/new/one'), 'first');
    const stat = await fileAccess.stat(id, '/root/new/one');
    assert.deepEqual([stat?.path, stat?.isFolder, stat?.size], ['/root/new/one', false, 5]);
    assert.equal((await fileAccess.stat(id, '/root/new'))?.isFolder, true);
    assert.equal(await contents(await fileAccess.read(id, '/root/new/one', never)), 'first');
    assert.equal((await contents(await fileAccess.read(id, '/root/new', never))).length, 'firstsecond'.length);
    await fileAccess.write(id, '/root/new', archive(file('one', 'changed')), never);
    assert.equal(await under.readFile(id, '/root/new/one'), 'changed');
    await fileAccess.remove(id, '/root/new', never);
    assert.equal(await fileAccess.stat(id, '/root/new/one'), undefined);
    await engine.remove(id);
    await rejectsWith(fileAccess.stat(id, '/root/new'), 'not_found');
  });

  it('puts no file in the place of a folder', async () => {
    const { engine } = suite();
    const id = await suite().started();
    await engine.fileAccess.write(id, '/', archive(file('root/kept/one', 'x')), never);
    await rejectsFile(engine.fileAccess.write(id, '/', archive(file('root/kept', 'y')), never), 'is_folder');
    assert.notEqual(await engine.fileAccess.stat(id, '/root/kept/one'), undefined);
    await engine.remove(id);
  });
}
