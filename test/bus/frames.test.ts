/**
 * The ciphers behind envelopes: libsodium's and node:crypto's write the same bytes, and neither takes what the other
 * did not write.
 */
import assert from 'node:assert/strict';
import { createCipheriv, createSecretKey, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import loadLibsodium from 'libsodium';
import { ENVELOPE_BYTES, Envelopes } from '../../transports/bus/envelopes.ts';
import { loadSodium, OpensslFrames, SHORT_BYTES, SodiumFrames } from '../../transports/bus/frames.ts';

const LAYOUT = { headBytes: 39, numberAt: 25 };
const CONTENT_AT = LAYOUT.headBytes + 16;
const AT = 1_700_000_000_000;
const hex = (text: string) => Buffer.from(text.replaceAll(/\s/g, ''), 'hex');

function frameOf(content: Uint8Array, head: Uint8Array = randomBytes(LAYOUT.headBytes)): Buffer {
  return Buffer.concat([head, Buffer.alloc(16), Buffer.alloc(content.length)]);
}

test('short and long frames are byte for byte those of node:crypto, and each opens what the other sealed', async () => {
  await loadSodium();
  const cases = fc.record({
    key: fc.uint8Array({ minLength: 32, maxLength: 32 }),
    head: fc.uint8Array({ minLength: LAYOUT.headBytes, maxLength: LAYOUT.headBytes }),
    text: fc.oneof(fc.string({ maxLength: 100 }), fc.string({ unit: 'binary', maxLength: 400 })),
    content: fc.oneof(
      fc.uint8Array({ maxLength: 600 }),
      fc.uint8Array({ minLength: SHORT_BYTES - 600, maxLength: SHORT_BYTES + 100, size: 'max' }),
    ),
  });
  fc.assert(
    fc.property(cases, ({ key, head, text, content }) => {
      const secret = createSecretKey(key);
      const mixed = new SodiumFrames(secret, LAYOUT);
      const plain = new OpensslFrames('chacha20-poly1305', secret, LAYOUT);
      const [one, other] = [frameOf(content, head), frameOf(content, head)];
      mixed.seal(one, text, content);
      plain.seal(other, text, content);
      assert.deepEqual(one, other);
      assert.deepEqual(Buffer.from(mixed.open(other, text) ?? assert.fail()), Buffer.from(content));
      assert.deepEqual(Buffer.from(plain.open(one, text) ?? assert.fail()), Buffer.from(content));
    }),
    { numRuns: 400 },
  );
});

test('both change hands where a frame is too long for libsodium, and at no content at all', async () => {
  await loadSodium();
  const key = createSecretKey(randomBytes(32));
  const [mixed, plain] = [new SodiumFrames(key, LAYOUT), new OpensslFrames('chacha20-poly1305', key, LAYOUT)];
  const text = 'subject\0';
  const last = SHORT_BYTES - CONTENT_AT - 3 * text.length;
  for (const length of [0, 1, 15, 16, 17, last - 1, last, last + 1, last + 2, 1 << 20]) {
    const content = randomBytes(length);
    const head = randomBytes(LAYOUT.headBytes);
    const [one, other] = [frameOf(content, head), frameOf(content, head)];
    mixed.seal(one, text, content);
    plain.seal(other, text, content);
    assert.ok(one.equals(other), `${length}`);
    assert.ok(content.equals(mixed.open(one, text) ?? assert.fail(`${length}`)), `${length}`);
  }
});

test('a frame of which any bit, its text or its length was changed is opened by neither', async () => {
  await loadSodium();
  const key = createSecretKey(randomBytes(32));
  const text = 'node.n1.ask\0_INBOX.1';
  for (const frames of [new SodiumFrames(key, LAYOUT), new OpensslFrames('chacha20-poly1305', key, LAYOUT)]) {
    const content = randomBytes(40);
    const frame = frameOf(content);
    frames.seal(frame, text, content);
    for (let bit = 0; bit < frame.length * 8; bit++) {
      const changed = Buffer.from(frame);
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      assert.equal(frames.open(changed, text), undefined, `bit ${bit}`);
    }
    assert.equal(frames.open(frame, `${text}0`), undefined);
    assert.equal(frames.open(frame.subarray(0, -1), text), undefined);
    assert.equal(frames.open(Buffer.concat([frame, Buffer.of(0)]), text), undefined);
    assert.equal(frames.open(frame.subarray(0, CONTENT_AT), text), undefined);
    assert.ok(frames.open(frame, text) !== undefined);
    assert.equal(new SodiumFrames(createSecretKey(randomBytes(32)), LAYOUT).open(frame, text), undefined);
  }
});

test('what was opened and what was sealed stays as it is while others are', async () => {
  await loadSodium();
  const frames = new SodiumFrames(createSecretKey(randomBytes(32)), LAYOUT);
  const all = Array.from({ length: 50 }, (_, n) => {
    const content = Buffer.alloc(100 + n, n);
    const frame = frameOf(content);
    frames.seal(frame, '', content);
    return { content, frame };
  });
  const opened = all.map(({ frame }) => frames.open(frame, '') ?? assert.fail());
  for (const [n, { content }] of all.entries()) assert.ok(content.equals(opened[n] ?? assert.fail()));
});

// RFC 8439, 2.8.2 and A.5.
test('libsodium and node:crypto give the vectors of RFC 8439', async () => {
  const vectors = [
    {
      key: Buffer.from(Array.from({ length: 32 }, (_, n) => 0x80 + n)),
      nonce: hex('07 00 00 00 40 41 42 43 44 45 46 47'),
      about: hex('50 51 52 53 c0 c1 c2 c3 c4 c5 c6 c7'),
      text: "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.",
      begins: hex('d3 1a 8d 34 64 8e 60 db 7b 86 af bc 53 ef 7e c2'),
      tag: hex('1a e1 0b 59 4f 09 e2 6a 7e 90 2e cb d0 60 06 91'),
    },
    {
      key: hex('1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0'),
      nonce: hex('00 00 00 00 01 02 03 04 05 06 07 08'),
      about: hex('f3 33 88 86 00 00 00 00 00 00 4e 91'),
      text:
        'Internet-Drafts are draft documents valid for a maximum of six months and may be updated, replaced, or obsoleted ' +
        'by other documents at any time. It is inappropriate to use Internet-Drafts as reference material or to cite them ' +
        'other than as /\u201cwork in progress./\u201d',
      begins: hex('64 a0 86 15 75 86 1a f4 60 f0 62 c7 9b e6 43 bd'),
      tag: hex('ee ad 9d 67 89 0c bb 22 39 23 36 fe a1 85 1f 38'),
    },
  ];
  const sodium = await loadLibsodium({ getRandomValue: () => randomBytes(4).readUInt32LE() });
  for (const { key, nonce, about, text, begins, tag } of vectors) {
    const data = Buffer.from(text);
    const cipher = createCipheriv('chacha20-poly1305', key, nonce, { authTagLength: 16 });
    cipher.setAAD(about, { plaintextLength: data.length });
    const content = cipher.update(data);
    cipher.final();
    assert.deepEqual([content.subarray(0, 16), cipher.getAuthTag()], [begins, tag]);

    const put = (bytes: Uint8Array) => {
      const at = sodium._malloc(bytes.length);
      sodium.HEAPU8.set(bytes, at);
      return at;
    };
    const [to, tagAt, keyAt, nonceAt, aboutAt] = [data, tag, key, nonce, about].map(put);
    sodium._crypto_aead_chacha20poly1305_ietf_encrypt_detached(
      ...([to ?? 0, tagAt ?? 0, 0, to ?? 0, data.length, 0] as const),
      ...([aboutAt ?? 0, about.length, 0, 0, nonceAt ?? 0, keyAt ?? 0] as const),
    );
    const read = (at = 0, length = 16) => Buffer.from(sodium.HEAPU8.subarray(at, at + length));
    assert.deepEqual([read(to, data.length), read(tagAt)], [content, tag]);
  }
});

test('envelopes have this format: what a stream keeps of the version before is opened, and its calls are refused', () => {
  const secret = 'a secret of a platform before, 32 bytes';
  const envelopes = new Envelopes(secret, { isShared: true, now: () => AT });
  const kept = hex(
    '02fdc89a2c1863981942075919e7c08130dce4ce6827789c560000000000000001018bcfe56800797aac5bb8da37cf350c59ea5e6d7c27ac' +
      'd5760d3ef938bacec0474a5c2e20c241368c',
  );
  assert.equal(Buffer.from(envelopes.openKept('auth.user.u1.changed', kept)).toString(), 'of a version before');
  const call = hex(
    '01fdc89a2c1863981942075919e7c08130dce4ce6827789c560000000000000002018bcfe568000c8de076a893b7bf6a78f79b84eb992def' +
      'e62b44c992ec8414e7ee640577d4af82cff8',
  );
  assert.throws(() => envelopes.open('node.n1.tell', call), { code: 'unsealed' });
  // Nor when it says that it is one of ours.
  call[0] = 3;
  assert.throws(() => envelopes.open('node.n1.tell', call), { code: 'forged' });

  const now = hex(
    '03fdc89a2c18639819100e437a0687fe2075e8f857ff4601d90000000000000001018bcfe56800c3d544bc443e0bd8f1714fc30c19d778ac' +
      '44f40d7250ba413617ebd055ca3e',
  );
  assert.equal(Buffer.from(envelopes.open('node.n1.tell', now)).toString(), 'of this version');
  assert.equal(now.length, ENVELOPE_BYTES + 'of this version'.length);
});
