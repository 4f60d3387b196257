import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import fc from 'fast-check';
import ssh2 from 'ssh2';
import { MAX_PUBLIC_KEY_LENGTH, PUBLIC_KEY_TYPES, parsePublicKey } from '../../proto/compute/ssh-key.ts';
import { generateKeyPair } from '../../transports/ssh/keys.ts';
import { skipWithout } from '../support/require.ts';
import { type Cleanup, tempDir } from '../support/temp.ts';

const run = promisify(execFile);
const withKeygen = { skip: skipWithout('ssh-keygen') };
const ED25519 = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKt9FSmyFgJm5+k7AoHUpDRPBBXwqrTHMmkzUKlK3/bl me@home';

/** A key made by ssh-keygen, and the fingerprint it prints. */
async function keygen(t: Cleanup, ...args: string[]): Promise<{ line: string; fingerprint: string; path: string }> {
  const path = join(await tempDir(t), 'key');
  await run('ssh-keygen', ['-q', '-N', '', '-C', 'me@home "x"', '-f', path, ...args]);
  const { stdout } = await run('ssh-keygen', ['-l', '-f', `${path}.pub`]);
  return { line: (await readFile(`${path}.pub`, 'utf8')).trim(), fingerprint: stdout.split(' ')[1] ?? '', path };
}

/** A blob of length-prefixed strings. */
function blob(...strings: (string | Buffer)[]): string {
  const parts = strings.map((part) => {
    const bytes = Buffer.from(part);
    const length = Buffer.alloc(4);
    length.writeUInt32BE(bytes.length);
    return Buffer.concat([length, bytes]);
  });
  return Buffer.concat(parts).toString('base64');
}

for (const [type, ...args] of [
  ['ssh-ed25519', '-t', 'ed25519'],
  ['ssh-rsa', '-t', 'rsa', '-b', '2048'],
  ['ssh-rsa', '-t', 'rsa', '-b', '3072'],
  ['ecdsa-sha2-nistp256', '-t', 'ecdsa', '-b', '256'],
  ['ecdsa-sha2-nistp384', '-t', 'ecdsa', '-b', '384'],
  ['ecdsa-sha2-nistp521', '-t', 'ecdsa', '-b', '521'],
] as const) {
  test(`public keys: ${args.join(' ')} of ssh-keygen is taken apart`, withKeygen, async (t) => {
    const { line, fingerprint } = await keygen(t, ...args);
    const key = parsePublicKey(line);
    assert.deepEqual(key, { type, base64: line.split(' ')[1], comment: 'me@home "x"', fingerprint });
    assert.equal(parsePublicKey(`${key?.type} ${key?.base64}`)?.comment, '');
    assert.equal(parsePublicKey(`${key?.type}\t${key?.base64} \t a b `)?.comment, 'a b');
  });
}

test('public keys: a short RSA key is refused', withKeygen, async (t) => {
  const { line } = await keygen(t, '-t', 'rsa', '-b', '1024');
  assert.equal(parsePublicKey(line), undefined);
});

test('public keys: nothing but one key and a comment is taken', () => {
  assert.ok(parsePublicKey(ED25519));
  const [type, base64] = ED25519.split(' ');
  for (const text of [
    '',
    `command="id" ${ED25519}`,
    `no-pty ${ED25519}`,
    ` ${ED25519}`,
    `${ED25519}\n`,
    `${ED25519}\n${ED25519}`,
    `${ED25519}\r`,
    `${ED25519}\0`,
    `${ED25519}\u2028x`,
    `${ED25519}\u009bx`,
    `${ED25519}\ud800`,
    `${type}`,
    `${type} `,
    `${type}${base64}`,
    `${type} ${base64}=`,
    `${type} ${base64}==`,
    `${type} ${base64?.slice(0, -1)}`,
    `${type} ${base64?.slice(0, -4)}`,
    `${type} ${base64}AAAA`,
    `${type} ${base64?.replace('+', '-')}`,
    `ssh-rsa ${base64}`,
    `SSH-ED25519 ${base64}`,
    `ssh-dss ${base64}`,
    `sk-ssh-ed25519@openssh.com ${base64}`,
    `ssh-ed25519-cert-v01@openssh.com ${base64}`,
    `${ED25519} ${'x'.repeat(MAX_PUBLIC_KEY_LENGTH)}`,
  ]) {
    assert.equal(parsePublicKey(text), undefined, JSON.stringify(text.slice(0, 200)));
  }
});

test('public keys: numbers that no key can have are refused', () => {
  const ed25519 = (point: Buffer, ...more: Buffer[]) =>
    parsePublicKey(`ssh-ed25519 ${blob('ssh-ed25519', point, ...more)}`);
  const point = (y: bigint) => Buffer.from(y.toString(16).padStart(64, '0'), 'hex').reverse();
  const p = 2n ** 255n - 19n;
  const order8 = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7n;
  for (const y of [0n, 1n, p - 1n, order8, p - order8, p, p + 1n, p + 3n, 2n]) {
    assert.equal(ed25519(point(y)), undefined, `y = ${y}`);
    assert.equal(ed25519(point(y | (1n << 255n))), undefined, `y = ${y}, x odd`);
  }
  assert.ok(ed25519(point(3n)), 'y = 3 is on the curve');
  assert.equal(ed25519(point(3n).subarray(1)), undefined);
  assert.equal(ed25519(Buffer.concat([point(3n), Buffer.alloc(1)])), undefined);
  assert.equal(ed25519(point(3n), Buffer.alloc(1)), undefined);

  const rsa = (e: string, n: Buffer) => parsePublicKey(`ssh-rsa ${blob('ssh-rsa', Buffer.from(e, 'hex'), n)}`);
  const modulus = (bytes: number) => Buffer.concat([Buffer.alloc(1), Buffer.alloc(bytes, 0xff)]);
  assert.ok(rsa('010001', modulus(256)));
  assert.ok(rsa('03', modulus(2048)));
  for (const e of ['', '00', '01', '02', '010000', '0003', '81', '010000000000000001']) {
    assert.equal(rsa(e, modulus(256)), undefined, `e = ${e}`);
  }
  assert.equal(rsa('010001', modulus(255)), undefined, '2040 bits');
  assert.equal(rsa('010001', modulus(2049)), undefined, '16392 bits');
  assert.equal(rsa('010001', modulus(256).subarray(1)), undefined, 'negative');
  assert.equal(rsa('010001', Buffer.concat([Buffer.alloc(1), modulus(256)])), undefined, 'a needless zero');
  assert.equal(rsa('010001', modulus(256).fill(0xfe, 256)), undefined, 'even');

  const ecdsa = (name: string, q: Buffer) =>
    parsePublicKey(`ecdsa-sha2-nistp256 ${blob('ecdsa-sha2-nistp256', name, q)}`);
  const generator = Buffer.from(
    '046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296' +
      '4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5',
    'hex',
  );
  assert.ok(ecdsa('nistp256', generator));
  assert.equal(ecdsa('nistp384', generator), undefined);
  assert.equal(ecdsa('nistp256', generator.subarray(0, 64)), undefined);
  assert.equal(
    ecdsa('nistp256', Buffer.concat([Buffer.from([2]), generator.subarray(1, 33)])),
    undefined,
    'compressed',
  );
  assert.equal(
    ecdsa('nistp256', Buffer.concat([Buffer.from([4]), Buffer.alloc(64)])),
    undefined,
    'the point at infinity',
  );
  const off = Buffer.from(generator);
  off.writeUInt8((off.at(-1) ?? 0) ^ 1, 64);
  assert.equal(ecdsa('nistp256', off), undefined, 'off the curve');
});

test('public keys: whatever is accepted is one clean line that reads back the same', () => {
  const edit = fc.record({ at: fc.nat(130), remove: fc.nat(4), insert: fc.string({ unit: 'binary', maxLength: 4 }) });
  const mutant = fc
    .array(edit, { maxLength: 3 })
    .map((edits) =>
      edits.reduce((text, { at, remove, insert }) => text.slice(0, at) + insert + text.slice(at + remove), ED25519),
    );
  const framed = fc
    .tuple(
      fc.constantFrom(...PUBLIC_KEY_TYPES),
      fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 4 }),
      fc.string(),
    )
    .map(([type, parts, comment]) => `${type} ${blob(type, ...parts.map((part) => Buffer.from(part)))} ${comment}`);
  let accepted = 0;
  fc.assert(
    fc.property(fc.oneof(mutant, framed, fc.string({ unit: 'binary' })), (text) => {
      const key = parsePublicKey(text);
      if (key === undefined) return;
      accepted++;
      const line = `${key.type} ${key.base64} ${key.comment}`.trim();
      assert.match(line, /^[a-z0-9-]+ [A-Za-z0-9+/]+=*( [^\p{Cc}\p{Cs}]+)?$/u);
      assert.deepEqual(parsePublicKey(line), key);
      assert.notEqual(ssh2.utils.parseKey(line) instanceof Error, true);
    }),
    { numRuns: 20_000 },
  );
  assert.ok(accepted > 0, 'some mutants are still keys');
});

test('key pairs: ssh-keygen reads both halves', withKeygen, async (t) => {
  const { privateKey, publicKey } = generateKeyPair('troupe platform');
  const path = join(await tempDir(t), 'key');
  await writeFile(path, privateKey, { mode: 0o600 });
  const { stdout } = await run('ssh-keygen', ['-y', '-f', path]);
  assert.equal(stdout.trim(), publicKey);
  assert.equal(parsePublicKey(publicKey)?.comment, 'troupe platform');
  assert.equal(parsePublicKey(generateKeyPair('').publicKey)?.comment, '');
});

test('key pairs: every one of a thousand can be read, keys with zero bytes in front among them', () => {
  for (let i = 0; i < 1000; i++) {
    const { privateKey, publicKey } = generateKeyPair('x'.repeat(i % 9));
    const key = ssh2.utils.parseKey(privateKey);
    assert.ok(!(key instanceof Error));
    assert.equal(key.getPublicSSH().toString('base64'), parsePublicKey(publicKey)?.base64);
  }
});

test('key pairs: a comment that would start a new line is refused', () => {
  assert.throws(() => generateKeyPair('a\nb'), RangeError);
});
