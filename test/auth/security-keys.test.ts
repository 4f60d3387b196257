import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { KeyProblem } from '../../actors/auth/login/webauthn-rules.ts';
import { addUser } from '../../actors/auth/users/users.ts';
import {
  beginAddKey,
  deleteKey,
  finishAddKey,
  listKeys,
  MAX_SECURITY_KEYS,
  renameKey,
} from '../../proto/auth/security-keys.ts';
import { CHALLENGE_SECONDS } from '../../proto/auth/tokens.ts';
import { cbor, FLAGS, SoftKey, type Wrong } from '../support/auth/authenticator.ts';
import { addKey, beginLogin, enterWithKey, entries, finishAdd, lastReason } from '../support/auth/second-factor.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openAuth } from '../support/service/auth.ts';
import { refused } from '../support/service/calls.ts';

failOnLeaks();

describe('adding a security key', () => {
  test('begins with exactly what the browser is to be told', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    const reply = await auth.call(beginAddKey, ann);
    assert.deepEqual(Object.keys(reply).sort(), ['options', 'state']);
    const { challenge, ...rest } = reply.options;
    assert.equal(Buffer.from(challenge, 'base64url').byteLength, 32);
    assert.deepEqual(rest, {
      rp: { name: 'Troupe', id: 'troupe.test' },
      user: { id: Buffer.from(ann.userId).toString('base64url'), name: 'ann', displayName: 'ann' },
      pubKeyCredParams: [-8, -7, -257].map((alg) => ({ type: 'public-key', alg })),
      timeout: 60_000,
    });
    assert.notEqual((await auth.call(beginAddKey, ann)).options.challenge, challenge);
  });

  test('ends with a key in the list, an entry in the audit trail and the second factor on', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    assert.deepEqual(await auth.call(listKeys, ann), { keys: [] });
    const key = new SoftKey({ verifies: true });
    await addKey(auth, ann, key, 'blue one');
    const { keys } = await auth.call(listKeys, ann);
    assert.equal(keys.length, 1);
    assert.ok(Math.abs((keys[0]?.created_at ?? 0) - Date.now() / 1000) < 60);
    assert.deepEqual(
      { ...keys[0], created_at: 0 },
      {
        ...{ id: key.id, name: 'blue one', authenticator_type: 'cross-platform', created_at: 0 },
      },
    );
    const detail = { name: 'blue one', authenticator_type: 'cross-platform', user_verified: true };
    assert.deepEqual(await entries(auth, 'security_key.add'), [
      { username: 'ann', address: '192.0.2.1', target: key.id, detail },
    ]);
    const { options } = await beginLogin(auth);
    assert.deepEqual(options.allowCredentials, [{ id: key.id, type: 'public-key', transports: ['nfc', 'usb'] }]);
  });

  for (const algorithm of ['ES256', 'EdDSA', 'RS256'] as const) {
    test(`takes ${algorithm}, without attestation and with one that the key signed itself`, async (t) => {
      const auth = await openAuth(t);
      const ann = await auth.enter('ann');
      const [plain, attested] = [new SoftKey({ algorithm }), new SoftKey({ algorithm, verifies: true })];
      await addKey(auth, ann, plain);
      await addKey(auth, ann, attested, '', { attestation: 'packed' });
      await enterWithKey(auth, plain);
      await enterWithKey(auth, attested);
    });
  }

  test('takes standard base64, and no more of a browser than it needs', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    const id = Buffer.from('fbff'.repeat(16), 'hex');
    const key = new SoftKey({ id });
    const { options, state } = await auth.call(beginAddKey, ann);
    const { response } = key.create(options);
    const standard = (text: string) => Buffer.from(text, 'base64url').toString('base64');
    const credential = {
      ...{ id: standard(key.id), type: 'public-key' },
      response: {
        clientDataJSON: standard(response.clientDataJSON),
        attestationObject: standard(response.attestationObject),
      },
    };
    await auth.call(finishAddKey, ann, { body: { state, credential } });
    const { keys } = await auth.call(listKeys, ann);
    assert.deepEqual(
      keys.map(({ id, name, authenticator_type }) => [id, name, authenticator_type]),
      [[key.id, '', '']],
    );
    assert.deepEqual((await beginLogin(auth)).options.allowCredentials, [{ id: key.id, type: 'public-key' }]);
    await auth.call(renameKey, ann, { body: { id: id.toString('base64'), name: 'renamed' } });
    await auth.call(deleteKey, ann, { body: { id: id.toString('base64') } });
    assert.deepEqual(await auth.call(listKeys, ann), { keys: [] });
  });

  test('refuses what was made for other eyes, or in another way than asked for', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    const deep = Buffer.alloc(20_000, 0x81);
    const long = cbor(new Map([['fmt', 'none']]));
    long[1] = 0x7b; // a text of a length that 8 bytes hold
    const wrongs: Record<string, [KeyProblem, Wrong]> = {
      'another origin': ['origin', { origin: 'https://evil-troupe.test' }],
      'a page of a container': ['origin', { origin: 'https://abcdefghijkl.compute.troupe.test' }],
      'no origin': ['origin', { origin: 'null' }],
      'plain HTTP': ['origin', { origin: 'http://troupe.test' }],
      'a page within a page': ['origin', { clientData: { crossOrigin: true } }],
      'a page above it': ['malformed', { clientData: { crossOrigin: true, topOrigin: 'https://evil.test' } }],
      'another RP id': ['verification', { rpId: 'evil.test' }],
      'a parent as RP id': ['verification', { rpId: 'test' }],
      'another challenge': ['verification', { challenge: Buffer.alloc(32).toString('base64url') }],
      'an empty challenge': ['verification', { challenge: '' }],
      'a signature for a login': ['verification', { type: 'webauthn.get' }],
      'nobody present': ['verification', { flags: 0 }],
      'nobody present, but verified': ['verification', { flags: FLAGS.verified }],
      'backed up though it cannot be': ['verification', { flags: FLAGS.present | 0x10 }],
      'an unknown algorithm': [
        'verification',
        {
          cose: new Map([
            [1, 2],
            [3, -47],
            [-1, 8],
          ]),
        },
      ],
      'a broken public key': [
        'public_key',
        {
          cose: new Map<number, number | Uint8Array>([
            [1, 2],
            [3, -7],
            [-1, 1],
            [-2, new Uint8Array(32)],
            [-3, new Uint8Array(32)],
          ]),
        },
      ],
      'no public key': ['verification', { cose: 'x' }],
      'a forged self attestation': ['attestation', { attestation: 'forged packed' }],
      'certificates that lead nowhere': ['attestation', { attestation: 'packed with certificates' }],
      'none, with a statement': ['verification', { attestation: 'none with a statement' }],
      'a form that we did not ask for': ['attestation', { attestation: 'tpm' }],
      'CBOR that is a list': ['malformed', { attestationObject: cbor(['none']) }],
      'CBOR nested without end': ['malformed', { attestationObject: deep }],
      'CBOR that promises more than there is': ['malformed', { attestationObject: long }],
      'CBOR that is cut off': ['malformed', { attestationObject: cbor(new Map([['fmt', 'none']])).subarray(0, 5) }],
      'CBOR with half of the fields': ['verification', { attestationObject: cbor(new Map([['fmt', 'none']])) }],
      'a statement that is no map': [
        'malformed',
        {
          attestationObject: cbor(
            new Map([
              ['fmt', 'packed'],
              ['attStmt', 'x'],
              ['authData', 'x'],
            ]),
          ),
        },
      ],
      'an empty map': ['attestation', { attestationObject: Buffer.from('a0', 'hex') }],
    };
    for (const [name, [reason, wrong]] of Object.entries(wrongs)) {
      const { options, state } = await auth.call(beginAddKey, ann);
      const refusal = await refused(
        'invalid_request',
        finishAdd(auth, ann, state, new SoftKey().create(options, wrong)),
      );
      assert.match(refusal.message, /could not be verified/, name);
      assert.equal(lastReason(auth), `new security key refused: ${reason}`, name);
    }
    assert.deepEqual(await auth.call(listKeys, ann), { keys: [] });
    assert.deepEqual(await entries(auth, 'security_key.add'), []);
  });

  test('refuses a credential that does not agree with itself', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    const other = new SoftKey().id;
    for (const change of [{ rawId: other }, { id: other, rawId: other }]) {
      const { options, state } = await auth.call(beginAddKey, ann);
      const credential = { ...new SoftKey().create(options), ...change };
      await refused('invalid_request', finishAdd(auth, ann, state, credential));
    }
    for (const clientData of ['x', '[]', 'null', '{}', '{"origin":7}', '{"type":"webauthn.create"', '"\ud800"']) {
      const { options, state } = await auth.call(beginAddKey, ann);
      const made = new SoftKey().create(options);
      const clientDataJSON = Buffer.from(clientData).toString('base64url');
      await refused(
        'invalid_request',
        finishAdd(auth, ann, state, { ...made, response: { ...made.response, clientDataJSON } }),
      );
    }
  });

  test('refuses bodies of the wrong shape before anything is spent', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    const { options, state } = await auth.call(beginAddKey, ann);
    const good = new SoftKey().create(options);
    const { response } = good;
    const credentials: unknown[] = [
      ...[
        undefined,
        null,
        'x',
        [],
        {},
        { ...good, id: '' },
        { ...good, id: 'not base64!' },
        { ...good, id: 'a'.repeat(1365) },
      ],
      ...[
        { ...good, type: 'password' },
        { ...good, response: null },
        { ...good, response: {} },
      ],
      { ...good, response: { ...response, attestationObject: 'A'.repeat(32_769) } },
      { ...good, response: { ...response, clientDataJSON: 'A'.repeat(8193) } },
      { ...good, response: { ...response, transports: Array.from({ length: 17 }, () => 'usb') } },
    ];
    const bodies: unknown[] = [
      ...credentials.map((credential) => ({ state, credential })),
      ...[{ credential: good }, { state: '', credential: good }, { state: 'x'.repeat(4097), credential: good }],
      ...[
        { state, credential: good, name: 'a'.repeat(65) },
        { state, credential: good, name: 'a\u0000' },
      ],
    ];
    for (const body of bodies) {
      await refused('invalid_request', (async () => auth.call(finishAddKey, ann, { body }))());
    }
    await finishAdd(auth, ann, state, good, '🔑'.repeat(64));
  });

  test('takes each state once, from whom it was given to, for five minutes', async (t) => {
    const auth = await openAuth(t);
    await addUser(auth.outside, 'bob', 'correct horse battery');
    const [ann, bob] = [await auth.enter('ann'), await auth.enter('bob')];
    const { options, state } = await auth.call(beginAddKey, ann);
    const key = new SoftKey();
    // Bob can neither use it nor use it up.
    await refused('invalid_request', finishAdd(auth, bob, state, key.create(options)));
    await finishAdd(auth, ann, state, key.create(options));
    await refused('invalid_request', finishAdd(auth, ann, state, new SoftKey().create(options)));
    // A try that failed has spent its state too.
    const failed = await auth.call(beginAddKey, ann);
    const bad = new SoftKey().create(failed.options, { origin: 'https://evil.test' });
    await refused('invalid_request', finishAdd(auth, ann, failed.state, bad));
    await refused('invalid_request', finishAdd(auth, ann, failed.state, new SoftKey().create(failed.options)));

    const late = await auth.call(beginAddKey, ann);
    auth.clock.advance((CHALLENGE_SECONDS - 2) * 1000);
    const inTime = await auth.call(beginAddKey, ann);
    auth.clock.advance(3000);
    await refused('invalid_request', finishAdd(auth, ann, late.state, new SoftKey().create(late.options)));
    await finishAdd(auth, ann, inTime.state, new SoftKey().create(inTime.options));
    assert.equal((await auth.call(listKeys, ann)).keys.length, 2);
  });

  test('twice at once with one state adds one key', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    const { options, state } = await auth.call(beginAddKey, ann);
    const tries = await Promise.allSettled(
      Array.from({ length: 5 }, () => finishAdd(auth, ann, state, new SoftKey().create(options))),
    );
    assert.equal(tries.filter(({ status }) => status === 'fulfilled').length, 1);
    assert.equal((await auth.call(listKeys, ann)).keys.length, 1);
  });

  test('refuses a key that somebody has already', async (t) => {
    const auth = await openAuth(t);
    await addUser(auth.outside, 'bob', 'correct horse battery');
    const [ann, bob] = [await auth.enter('ann'), await auth.enter('bob')];
    const key = new SoftKey();
    await addKey(auth, ann, key, 'mine');
    for (const caller of [ann, bob]) {
      const { options, state } = await auth.call(beginAddKey, caller);
      await refused('conflict', finishAdd(auth, caller, state, key.create(options), 'stolen'));
    }
    assert.deepEqual(
      (await auth.call(listKeys, ann)).keys.map(({ name }) => name),
      ['mine'],
    );
    assert.deepEqual(await auth.call(listKeys, bob), { keys: [] });
    await enterWithKey(auth, key);
  });

  test(`ends at ${MAX_SECURITY_KEYS} keys, also for those who began before`, async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    for (let i = 1; i < MAX_SECURITY_KEYS; i++) await addKey(auth, ann, new SoftKey(), `key ${i}`);
    const begun = await Promise.all(Array.from({ length: 3 }, () => auth.call(beginAddKey, ann)));
    const tries = await Promise.allSettled(
      begun.map(({ options, state }) => finishAdd(auth, ann, state, new SoftKey().create(options))),
    );
    assert.deepEqual(tries.map(({ status }) => status).sort(), ['fulfilled', 'rejected', 'rejected']);
    for (const result of tries) if (result.status === 'rejected') assert.equal(result.reason.code, 'limit_reached');
    await refused('limit_reached', auth.call(beginAddKey, ann));
    const { keys } = await auth.call(listKeys, ann);
    assert.equal(keys.length, MAX_SECURITY_KEYS);
    await auth.call(deleteKey, ann, { body: { id: keys[0]?.id } });
    await addKey(auth, ann, new SoftKey());
  });

  test('for somebody who was deleted meanwhile is refused', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    const { options, state } = await auth.call(beginAddKey, ann);
    await auth.db.run('delete from users where id = $1', [ann.userId]);
    await refused('unauthorized', finishAdd(auth, ann, state, new SoftKey().create(options)));
    await refused('unauthorized', auth.call(beginAddKey, ann));
  });
});

describe('security keys', () => {
  test('are renamed and deleted by their owner, and nobody else', async (t) => {
    const auth = await openAuth(t);
    await addUser(auth.outside, 'bob', 'correct horse battery');
    const [ann, bob] = [await auth.enter('ann'), await auth.enter('bob')];
    const [first, second] = [new SoftKey(), new SoftKey()];
    await addKey(auth, ann, first, 'first');
    await addKey(auth, ann, second, 'second');
    const names = async () => (await auth.call(listKeys, ann)).keys.map(({ name }) => name);

    await refused('not_found', auth.call(renameKey, bob, { body: { id: first.id, name: 'stolen' } }));
    await refused('not_found', auth.call(deleteKey, bob, { body: { id: first.id } }));
    assert.deepEqual(await names(), ['first', 'second']);

    assert.equal(await auth.call(renameKey, ann, { body: { id: first.id, name: '🔑 Änn' } }), undefined);
    assert.deepEqual(await names(), ['🔑 Änn', 'second']);
    await auth.call(renameKey, ann, { body: { id: first.id, name: '' } });
    assert.equal(await auth.call(deleteKey, ann, { body: { id: second.id } }), undefined);
    assert.deepEqual(await names(), ['']);
    await refused('not_found', auth.call(deleteKey, ann, { body: { id: second.id } }));
    await refused('not_found', auth.call(renameKey, ann, { body: { id: second.id, name: 'x' } }));

    const of = { username: 'ann', address: '192.0.2.1' };
    assert.deepEqual(await entries(auth, 'security_key.rename'), [
      { ...of, target: first.id, detail: { name: '🔑 Änn' } },
      { ...of, target: first.id, detail: { name: '' } },
    ]);
    assert.deepEqual(await entries(auth, 'security_key.delete'), [
      { ...of, target: second.id, detail: { name: 'second' } },
    ]);
  });

  test('have ids and names of a certain form', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    for (const id of [undefined, 7, '', "' or 1=1 --", 'a\0', 'a'.repeat(1365), '../x', 'ä']) {
      await refused('invalid_request', (async () => auth.call(deleteKey, ann, { body: { id } }))());
    }
    for (const name of [undefined, null, 7, 'a'.repeat(65), 'a\nb', '\u009b31m']) {
      await refused('invalid_request', (async () => auth.call(renameKey, ann, { body: { id: 'AAAA', name } }))());
    }
  });

  test('go with their user', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    await addKey(auth, ann, new SoftKey());
    await auth.db.run('delete from users where id = $1', [ann.userId]);
    assert.equal(await auth.db.run('select from security_keys'), 0);
  });
});
