/** What nobody reads of a container's files: the folder of the platform. */
import assert from 'node:assert/strict';
import { PassThrough, Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { test } from 'node:test';
import { fileTransfers } from '../../actors/compute/files/files.ts';
import { withoutTree } from '../../actors/compute/files/left-out.ts';
import { type TarEntry, tar } from '../../lib/tar.ts';
import { TarScanner } from '../../lib/tar-scanner.ts';
import { newId } from '../../proto/ids.ts';
import { FileError } from '../../proto/ports/files.ts';
import { memoryEngine } from '../support/engine/memory-engine.ts';
import { memoryFiles } from '../support/engine/memory-files.ts';
import { callFrom, refused, someone } from '../support/service/calls.ts';

const FOLDER = '/etc/troupe';
const file = (path: string, data: string): TarEntry => ({ kind: 'file', path, mode: 0o600, data: Buffer.from(data) });
const folder = (path: string): TarEntry => ({ kind: 'directory', path, mode: 0o755 });

/** The archive without the folder, read in pieces of `size` bytes. */
function cut(archive: Buffer, size: number): Promise<Buffer> {
  const pieces = Array.from({ length: Math.ceil(archive.length / size) }, (_, at) =>
    archive.subarray(at * size, (at + 1) * size),
  );
  return buffer(withoutTree(Readable.from(pieces), FOLDER));
}

test('an archive comes without the folder, and whole otherwise, however its bytes are cut', async () => {
  const long = `etc/${'long-'.repeat(40)}name`;
  const before = [folder('etc'), file('etc/hosts', 'a'.repeat(513)), file(long, 'after a header of its own')];
  const kept = [folder('etc/troupe'), file('etc/troupe/env', 'a secret'), file('etc/troupe/run', 'b'.repeat(2000))];
  const after = [file('etc/troupe-not', 'x'), file('etc/other/etc/troupe/env', 'y'), file('usr/etc/troupe', 'z')];
  const whole = tar([...before, ...kept, ...after]);
  const wanted = tar([...before, ...after]);
  for (const size of [1, 511, 512, 513, 4096, whole.length])
    assert.ok((await cut(whole, size)).equals(wanted), `${size}`);
  for (const way of ['./', '/']) {
    const named = tar(kept.map((entry) => ({ ...entry, path: way + entry.path })));
    assert.ok((await cut(named, 700)).equals(tar([])), way);
  }
});

test('what stands before an entry of the folder goes with it, and bytes that are no archive do not pass', async () => {
  // Attributes of a file, as Docker writes them.
  const record = tar([file('pax', '20 SCHILY.xattr.a=b\n')]).subarray(0, 1024);
  record.write('x', 156, 'latin1');
  let sum = 0;
  for (const [at, byte] of record.subarray(0, 512).entries()) sum += at >= 148 && at < 156 ? 0x20 : byte;
  record.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  const entries = (...list: TarEntry[]) => tar(list).subarray(0, -1024);
  const one = entries(file('etc/troupe/env', 'a secret'));
  const other = Buffer.concat([entries(file('etc/passwd', 'root')), Buffer.alloc(1024)]);
  assert.ok((await cut(Buffer.concat([record, one, other]), 100)).equals(other));
  const both = Buffer.concat([record, other]);
  assert.ok((await cut(both, 100)).equals(both));
  await assert.rejects(cut(Buffer.alloc(1024, 'x'), 512), FileError);
  const broken = new PassThrough();
  const reading = buffer(withoutTree(broken, FOLDER));
  broken.destroy();
  await assert.rejects(reading, FileError);
});

test('files of the folder are neither read nor changed, and an archive of what is above is without them', async () => {
  const stored = new Map([
    ['/etc/passwd', 'root'],
    ['/etc/troupe/env', 'a secret'],
    ['/etc/troupe-too', 'mine'],
  ]);
  const under = memoryFiles(() => stored);
  // A link of the container that leads there.
  const fileAccess = {
    ...under,
    stat: (id: string, path: string) => under.stat(id, path.replace('/root/link', FOLDER)),
  };
  const [reads, writes, removes] = fileTransfers({ engine: { ...memoryEngine(), fileAccess } }, async () => undefined);
  const id = newId();
  const ask = (one: typeof reads, path: string, archive?: 'tar') => {
    assert.ok(one !== undefined);
    const query = { path, ...(archive === undefined ? {} : { archive }) };
    const call = callFrom(one.endpoint, someone(), { params: { id }, query });
    const upload = { header: () => undefined, stream: () => Readable.from([]), signal: new AbortController().signal };
    return one.run(call, upload);
  };
  for (const path of [FOLDER, '/etc/troupe/env', '/etc/troupe/none', '/root/link/env']) {
    await refused('forbidden', ask(reads, path, 'tar'));
    if (path !== FOLDER) await refused('forbidden', ask(reads, path));
  }
  for (const path of ['/etc/troupe/env', '/root/link/env', '/etc/troupe/new']) {
    await refused('read_only', ask(writes, path));
    await refused('read_only', ask(writes, path, 'tar'));
  }
  for (const path of ['/etc/troupe/env', '/root/link/env', FOLDER]) await refused('read_only', ask(removes, path));
  assert.equal(stored.get('/etc/troupe/env'), 'a secret');
  const plain = await ask(reads, '/etc/troupe-too');
  assert.ok('bytes' in plain);
  assert.equal(await text(plain.bytes), 'mine');
  for (const path of ['/', '/etc']) {
    const all = await ask(reads, path, 'tar');
    assert.ok('bytes' in all);
    const bytes = await buffer(all.bytes);
    const found = [...new TarScanner().push(bytes)].flatMap((part) =>
      part.kind === 'content' ? [`${part.data}`] : [],
    );
    assert.deepEqual(found.sort(), ['mine', 'root'], path);
  }
});
