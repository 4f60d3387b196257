import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { describe, test } from 'node:test';
import {
  acceptsOrigin,
  authenticatorType,
  counterAdvances,
  knownTransports,
} from '../../actors/auth/login/webauthn-rules.ts';
import { isUsableKey } from '../../actors/auth/login/webauthn-verify.ts';
import { cbor } from '../support/auth/authenticator.ts';

describe('the origin of a page', () => {
  const accepts = (id: string, origin: string) =>
    acceptsOrigin({ id, origins: undefined, tenants: `compute.${id}` }, origin);

  const example = { id: 'example.com', origins: undefined, tenants: 'compute.cloud.example.com' };

  test('may be the RP id and its subdomains, on any port', () => {
    for (const origin of [
      ...['https://cloud.example.com', 'https://cloud.example.com:8443', 'https://console.cloud.example.com'],
      ...[
        'https://a.b.c.cloud.example.com:1',
        'https://x_1.cloud.example.com:65535',
        'https://xn--4ca.cloud.example.com',
      ],
    ]) {
      assert.ok(accepts('cloud.example.com', origin), origin);
    }
  });

  test('may be plain HTTP only for this machine itself', () => {
    for (const origin of [
      'http://troupe.localhost:7001',
      'http://console.troupe.localhost',
      'https://troupe.localhost',
    ]) {
      assert.ok(accepts('troupe.localhost', origin), origin);
    }
    assert.ok(accepts('localhost', 'http://localhost:3000'));
    for (const id of ['cloud.example.com', 'localhost.example.com', 'notlocalhost']) {
      assert.ok(!accepts(id, `http://${id}`), id);
      assert.ok(accepts(id, `https://${id}`), id);
    }
  });

  test('may not be what only looks like it', () => {
    const misses = [
      // Other names around ours.
      ...['https://evil-troupe.localhost', 'https://eviltroupe.localhost', 'https://troupe.localhost.evil.com'],
      ...['https://localhost', 'https://troupe', 'https://troupe.localhosts', 'https://troupe-localhost'],
      ...[
        'https://evil.com/troupe.localhost',
        'https://evil.com#.troupe.localhost',
        'https://evil.com?.troupe.localhost',
      ],
      // Parts that an origin does not have.
      ...['https://ann@troupe.localhost', 'https://troupe.localhost@evil.com', 'https://evil.com\\.troupe.localhost'],
      ...[
        'https://troupe.localhost/',
        'https://troupe.localhost/login',
        'https://troupe.localhost?x',
        'troupe.localhost',
      ],
      ...['https://troupe.localhost.', 'https://.troupe.localhost', 'https://a..troupe.localhost'],
      // Not as browsers write it.
      ...[
        'HTTPS://troupe.localhost',
        'https://Troupe.localhost',
        'https://troupe.localhost:443',
        'http://troupe.localhost:80',
      ],
      ...[
        ' https://troupe.localhost',
        'https://troupe.localhost ',
        'https://troupe.localhost\n',
        'https://tr\u{f6}upe.troupe.localhost',
      ],
      ...[
        'https://troupe.localhost:',
        'https://troupe.localhost:0',
        'https://troupe.localhost:070',
        'https://troupe.localhost:65536',
      ],
      ...['https://troupe.localhost:-1', 'https://troupe.localhost:1e3', 'https://troupe.localhost:99999999'],
      // Other schemes.
      ...[
        'null',
        '',
        'ws://troupe.localhost',
        'file://troupe.localhost',
        'android:apk-key-hash:troupe.localhost',
        'https:troupe.localhost',
      ],
      ...['https://127.0.0.1', 'http://[::1]:7001'],
    ];
    for (const origin of misses) assert.ok(!accepts('troupe.localhost', origin), JSON.stringify(origin));
  });

  test('may not be a page that somebody’s container serves', () => {
    for (const host of ['abcdefghijkl.compute', 'a.b.compute', 'compute']) {
      assert.ok(!accepts('troupe.localhost', `http://${host}.troupe.localhost:8000`), host);
      assert.ok(!accepts('cloud.example.com', `https://${host}.cloud.example.com`), host);
      // Also when keys are made for a parent of the platform's domain.
      assert.ok(!acceptsOrigin(example, `https://${host}.cloud.example.com`), host);
    }
    for (const host of ['compute.example.com', 'xcompute.cloud.example.com', 'console.cloud.example.com']) {
      assert.ok(acceptsOrigin(example, `https://${host}`), host);
    }
  });

  test('is compared as text where origins are named', () => {
    const party = { ...example, origins: ['https://console.example.com', 'http://localhost:5173'] };
    for (const origin of party.origins) assert.ok(acceptsOrigin(party, origin));
    for (const origin of [
      'https://example.com',
      'https://console.example.com:8443',
      'https://Console.example.com',
      'null',
    ]) {
      assert.ok(!acceptsOrigin(party, origin), origin);
    }
    assert.ok(!acceptsOrigin({ ...example, origins: [] }, 'https://example.com'));
  });
});

test('a counter must rise, or be zero for ever', () => {
  const cases: [number, number, boolean][] = [
    ...([
      [0, 0, true],
      [0, 1, true],
      [1, 2, true],
      [1, 4_294_967_295, true],
    ] as [number, number, boolean][]),
    ...([
      [1, 1, false],
      [2, 1, false],
      [1, 0, false],
      [4_294_967_295, 0, false],
    ] as [number, number, boolean][]),
  ];
  for (const [stored, presented, advances] of cases) {
    assert.equal(counterAdvances(stored, presented), advances, `${stored} -> ${presented}`);
  }
});

test('what a browser says of a key is kept only as far as it is understood', () => {
  assert.equal(authenticatorType('platform'), 'platform');
  assert.equal(authenticatorType('cross-platform'), 'cross-platform');
  for (const other of [undefined, null, '', 'Platform', '<b>']) assert.equal(authenticatorType(other), '');
  assert.deepEqual(knownTransports(['usb', 'nfc', 'usb', 'telepathy']), ['nfc', 'usb']);
  assert.deepEqual(knownTransports(undefined), []);
});

describe('a public key', () => {
  const jwkBytes = (text: string | undefined) => new Uint8Array(Buffer.from(text ?? '', 'base64url'));
  const { x, y } = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({ format: 'jwk' });
  const okp = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' });
  const rsa = (bits: number): [number, Uint8Array | number][] => {
    const { n, e } = generateKeyPairSync('rsa', { modulusLength: bits }).publicKey.export({ format: 'jwk' });
    return [
      [1, 3],
      [3, -257],
      [-1, jwkBytes(n)],
      [-2, jwkBytes(e)],
    ];
  };
  const usable = (fields: [number, Uint8Array | number][]) => isUsableKey(cbor(new Map(fields)));
  const ec: [number, Uint8Array | number][] = [
    [1, 2],
    [3, -7],
    [-1, 1],
    [-2, jwkBytes(x)],
    [-3, jwkBytes(y)],
  ];

  test('of a known algorithm with its own kind and curve is usable', () => {
    assert.ok(usable(ec));
    assert.ok(
      usable([
        [1, 1],
        [3, -8],
        [-1, 6],
        [-2, jwkBytes(okp.x)],
      ]),
    );
    assert.ok(usable(rsa(2048)));
  });

  test('that nothing could ever be verified with is not', () => {
    const but = (...changes: [number, Uint8Array | number][]) => [...new Map([...ec, ...changes])];
    const wrong: Record<string, [number, Uint8Array | number][]> = {
      'no algorithm we know (ES256K)': but([3, -47]),
      'the kind of another algorithm': but([1, 3]),
      'another curve': but([-1, 2]),
      'a point beside the curve': but([-2, new Uint8Array(32).fill(7)]),
      'a short coordinate': but([-2, new Uint8Array(1)]),
      'no coordinate': ec.slice(0, 4),
      'a number for a coordinate': but([-2, 7]),
      'a short RSA modulus': rsa(1024),
      'a huge RSA modulus': [
        [1, 3],
        [3, -257],
        [-1, new Uint8Array(20_000).fill(0xff)],
        [-2, new Uint8Array([1, 0, 1])],
      ],
    };
    for (const [name, fields] of Object.entries(wrong)) assert.ok(!usable(fields), name);
    for (const bytes of [
      new Uint8Array(),
      Buffer.from('a5', 'hex'),
      cbor([1, 2]),
      cbor('x'),
      Buffer.alloc(9000, 0x81),
    ]) {
      assert.ok(!isUsableKey(bytes));
    }
  });
});
