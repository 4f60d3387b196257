/** What is taken for a tar archive, however its bytes are cut. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tar } from '../../lib/tar.ts';
import { TarError, TarScanner } from '../../lib/tar-scanner.ts';

const LONG = 'a'.repeat(150);
const archive = tar([
  { kind: 'directory', path: 'folder', mode: 0o755 },
  { kind: 'file', path: `folder/${LONG}`, mode: 0o644, data: Buffer.from('x'.repeat(700)) },
  { kind: 'symlink', path: 'link', target: 'folder' },
  { kind: 'file', path: 'last', mode: 0o644, data: Buffer.alloc(0) },
]);

function scanned(bytes: Buffer, step: number) {
  const scanner = new TarScanner();
  const found = { types: '', content: '' };
  for (let at = 0; at < bytes.length; at += step)
    for (const part of scanner.push(bytes.subarray(at, at + step)))
      if (part.kind === 'entry') found.types += part.type;
      else found.content += part.data.toString();
  return { ...found, isWhole: scanner.isWhole };
}

/** The archive with a header changed, and its sum made anew. */
function changed(at: number, change: (header: Buffer) => void): Buffer {
  const bytes = Buffer.from(archive);
  const header = bytes.subarray(at, at + 512);
  change(header);
  let sum = 0;
  for (const [place, byte] of header.entries()) sum += place >= 148 && place < 156 ? 0x20 : byte;
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return bytes;
}

test('entries and contents are found however the bytes are cut', () => {
  for (const step of [1, 7, 511, 512, 513, archive.length])
    assert.deepEqual(scanned(archive, step), { types: '5020', content: 'x'.repeat(700), isWhole: true });
  assert.equal(scanned(archive.subarray(0, 1024), 100).isWhole, false);
});

test('devices, sparse files, another length than the header tells, and what is no archive are refused', () => {
  const refused = (bytes: Buffer) => assert.throws(() => scanned(bytes, 4096), TarError);
  for (const type of ['3', '4', 'S', '7', '\0']) refused(changed(0, (header) => header.write(type, 156, 'latin1')));
  refused(changed(archive.indexOf('last\0'), (header) => header.write('8', 124, 'latin1')));
  refused(Buffer.from(archive).fill(1, 0, 10));
  refused(Buffer.concat([archive, archive]));
  const pax = archive.indexOf(' path=');
  const forged = Buffer.from(archive);
  forged.write(' size=', pax);
  refused(forged);
});

test('the size of a link is passed over, as all readers do', () => {
  const link = archive.indexOf('link\0');
  const bytes = changed(link, (header) => header.write('00000001000\0', 124, 'latin1'));
  assert.equal(scanned(bytes, 4096).types, '5020');
});
