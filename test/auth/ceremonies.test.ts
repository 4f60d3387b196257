import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { KeyRejected } from '../../actors/auth/login/webauthn-rules.ts';
import { verifyNewKey, verifyUse } from '../../actors/auth/login/webauthn-verify.ts';
import { newCredentialSchema, signedCredentialSchema } from '../../proto/auth/security-keys.ts';
import { RP_ID, SoftKey } from '../support/auth/authenticator.ts';

const party = { id: RP_ID, origins: undefined, tenants: `compute.${RP_ID}` };
const challenge = Buffer.alloc(32, 1).toString('base64url');
const flip = (text: string, at: number, mask: number) => {
  const bytes = Buffer.from(text, 'base64url');
  bytes.writeUInt8((bytes[at] ?? 0) ^ mask, at);
  return bytes.toString('base64url');
};

async function made(key: SoftKey) {
  const credential = newCredentialSchema.parse(key.create({ challenge }));
  return { ...(await verifyNewKey(credential, challenge, party)), userId: 'aaaaaaaaaaaa' };
}

test('no bit of what a key signed can be changed', async () => {
  const key = new SoftKey({ algorithm: 'EdDSA', verifies: true });
  const known = await made(key);
  const good = signedCredentialSchema.parse(key.get({ challenge }));
  assert.equal(await verifyUse(good, challenge, party, known), 2);
  for (const field of ['authenticatorData', 'clientDataJSON', 'signature'] as const) {
    const length = Buffer.from(good.response[field], 'base64url').byteLength;
    for (let at = 0; at < length; at++) {
      const response = { ...good.response, [field]: flip(good.response[field], at, 1 << (at % 8)) };
      await assert.rejects(verifyUse({ ...good, response }, challenge, party, known), KeyRejected, `${field}[${at}]`);
    }
  }
});

test('whatever bytes come for an attestation, they are refused or they are the key, and nothing breaks', async () => {
  const key = new SoftKey();
  const good = newCredentialSchema.parse(key.create({ challenge }));
  const { attestationObject } = good.response;
  const length = Buffer.from(attestationObject, 'base64url').byteLength;
  const changed = fc
    .array(fc.tuple(fc.nat(length - 1), fc.integer({ min: 1, max: 255 })), { minLength: 1, maxLength: 4 })
    .map((flips) => flips.reduce((text, [at, mask]) => flip(text, at, mask), attestationObject));
  const random = fc
    .uint8Array({ minLength: 1, maxLength: 400 })
    .map((bytes) => Buffer.from(bytes).toString('base64url'));
  const cut = fc.nat(length - 2).map((end) =>
    Buffer.from(attestationObject, 'base64url')
      .subarray(0, end + 1)
      .toString('base64url'),
  );
  await fc.assert(
    fc.asyncProperty(fc.oneof(changed, random, cut), async (bytes) => {
      const response = { ...good.response, attestationObject: bytes };
      try {
        assert.equal((await verifyNewKey({ ...good, response }, challenge, party)).id, key.id);
      } catch (error) {
        assert.ok(error instanceof KeyRejected, String(error));
      }
    }),
    { numRuns: 600 },
  );
});

test('oversized CBOR is refused without being built', async () => {
  const good = newCredentialSchema.parse(new SoftKey().create({ challenge }));
  // Lists, maps, texts and byte strings of 2^32 - 1 and 2^53 - 1 members, alone and in each other.
  for (const head of ['9a', 'ba', '7a', '5a']
    .map((type) => `${type}ffffffff`)
    .concat(['9b001fffffffffffff', 'bb001fffffffffffff'])) {
    for (const repeat of [1, 2000]) {
      const attestationObject = Buffer.from(head.repeat(repeat), 'hex').toString('base64url');
      const response = { ...good.response, attestationObject };
      await assert.rejects(verifyNewKey({ ...good, response }, challenge, party), KeyRejected, head);
    }
  }
});
