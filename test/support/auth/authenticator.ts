/** A security key in software, and the browser around it: makes what `credential.toJSON()` gives, right or deliberately wrong. */
import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { isoCBOR } from '@simplewebauthn/server/helpers';

export const RP_ID = 'troupe.test';
export const ORIGIN = 'https://console.troupe.test';

/** Flags of authenticator data (WebAuthn, section 6.1). */
export const FLAGS = { present: 0x01, verified: 0x04, attested: 0x40 } as const;

type Algorithm = 'ES256' | 'EdDSA' | 'RS256';
type Cbor = Parameters<typeof isoCBOR.encode>[0];

export interface Made {
  readonly id: string;
  readonly rawId: string;
  readonly type: 'public-key';
  readonly authenticatorAttachment: string;
  readonly clientExtensionResults: object;
}
export interface NewCredentialJson extends Made {
  readonly response: { clientDataJSON: string; attestationObject: string; transports: string[] };
}
export interface SignedCredentialJson extends Made {
  readonly response: {
    clientDataJSON: string;
    authenticatorData: string;
    signature: string;
    userHandle: string | null;
  };
}

/** What may be done wrong. */
export interface Wrong {
  readonly origin?: string;
  readonly rpId?: string;
  readonly challenge?: string;
  /** `type` in the client data. */
  readonly type?: string;
  readonly clientData?: object;
  /** Flags in place of the right ones, without `attested`. */
  readonly flags?: number;
  readonly counter?: number;
  /** Only when a key is made. */
  readonly attestation?: 'packed' | 'forged packed' | 'packed with certificates' | 'none with a statement' | 'tpm';
  readonly cose?: Cbor;
  readonly attestationObject?: Uint8Array;
  /** Only when a key is used. */
  readonly userHandle?: string | null;
}

const base64url = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64url');
const sha256 = (bytes: Uint8Array | string) => createHash('sha256').update(bytes).digest();

/** The bytes of CBOR. */
export const cbor = (value: Cbor) => Buffer.from(isoCBOR.encode(value));

export interface KeyOptions {
  readonly algorithm?: Algorithm;
  /** Whether it checks who is there. */
  readonly verifies?: boolean;
  /** Whether it counts; one that does not says 0 for ever. */
  readonly counts?: boolean;
  readonly id?: Uint8Array;
  readonly modulusLength?: number;
}

/** One security key. */
export class SoftKey {
  readonly id: string;
  /** The next signature's counter; the test may turn it back. */
  counter = 0;
  readonly #id: Uint8Array;
  readonly #private: KeyObject;
  readonly #cose: Cbor;
  readonly #algorithm: Algorithm;
  readonly #flags: number;
  readonly #counts: boolean;

  constructor({ algorithm = 'ES256', verifies = false, counts = true, id, modulusLength = 2048 }: KeyOptions = {}) {
    this.#id = id ?? randomBytes(32);
    this.id = base64url(this.#id);
    this.#algorithm = algorithm;
    this.#flags = FLAGS.present | (verifies ? FLAGS.verified : 0);
    this.#counts = counts;
    [this.#private, this.#cose] = newPair(algorithm, modulusLength);
  }

  /** `navigator.credentials.create` with what `add/begin` gave. */
  create(options: { challenge: string }, wrong: Wrong = {}): NewCredentialJson {
    const publicKey = cbor(wrong.cose ?? this.#cose);
    const length = Buffer.alloc(2);
    length.writeUInt16BE(this.#id.byteLength);
    const attested = Buffer.concat([Buffer.alloc(16), length, this.#id, publicKey]);
    const authData = Buffer.concat([this.#data(wrong, FLAGS.attested), attested]);
    const clientData = clientDataJson('webauthn.create', options.challenge, wrong);
    const [format, statement] = this.#attest(wrong, authData, clientData);
    const object = cbor(
      new Map<string, Cbor>([
        ['fmt', format],
        ['attStmt', statement],
        ['authData', authData],
      ]),
    );
    return {
      ...this.#json(),
      response: {
        clientDataJSON: base64url(clientData),
        attestationObject: base64url(wrong.attestationObject ?? object),
        transports: ['usb', 'nfc'],
      },
    };
  }

  /** `navigator.credentials.get` with what `login/begin` gave. */
  get(options: { challenge: string }, wrong: Wrong = {}): SignedCredentialJson {
    const authData = this.#data(wrong, 0);
    const clientData = clientDataJson('webauthn.get', options.challenge, wrong);
    return {
      ...this.#json(),
      response: {
        clientDataJSON: base64url(clientData),
        authenticatorData: base64url(authData),
        signature: base64url(this.#sign(authData, clientData)),
        userHandle: wrong.userHandle ?? null,
      },
    };
  }

  #json(): Made {
    const common = {
      type: 'public-key',
      authenticatorAttachment: 'cross-platform',
      clientExtensionResults: {},
    } as const;
    return { id: this.id, rawId: this.id, ...common };
  }

  #data({ rpId = RP_ID, flags = this.#flags, counter }: Wrong, also: number): Buffer {
    const count = Buffer.alloc(4);
    count.writeUInt32BE(counter ?? (this.#counts ? ++this.counter : 0));
    return Buffer.concat([sha256(rpId), Buffer.from([flags | also]), count]);
  }

  #sign(authData: Uint8Array, clientData: Uint8Array): Buffer {
    const algorithm = this.#algorithm === 'EdDSA' ? null : 'sha256';
    return sign(algorithm, Buffer.concat([authData, sha256(clientData)]), this.#private);
  }

  #attest({ attestation }: Wrong, authData: Uint8Array, clientData: Uint8Array): [string, Map<string, Cbor>] {
    const alg = { ES256: -7, EdDSA: -8, RS256: -257 }[this.#algorithm];
    const signature = this.#sign(authData, clientData);
    switch (attestation) {
      case undefined:
        return ['none', new Map()];
      case 'none with a statement':
        return ['none', new Map([['sig', signature]])];
      case 'forged packed':
        return [
          'packed',
          new Map<string, Cbor>([
            ['alg', alg],
            ['sig', new SoftKey().#sign(authData, clientData)],
          ]),
        ];
      case 'packed with certificates':
        return [
          'packed',
          new Map<string, Cbor>([
            ['alg', alg],
            ['sig', signature],
            ['x5c', [randomBytes(300)]],
          ]),
        ];
      default:
        return [
          attestation,
          new Map<string, Cbor>([
            ['alg', alg],
            ['sig', signature],
          ]),
        ];
    }
  }
}

function clientDataJson(type: string, challenge: string, wrong: Wrong): Buffer {
  const { origin = ORIGIN, clientData = {} } = wrong;
  const data = { type: wrong.type ?? type, challenge: wrong.challenge ?? challenge, origin, crossOrigin: false };
  return Buffer.from(JSON.stringify({ ...data, ...clientData }));
}

function newPair(algorithm: Algorithm, modulusLength: number): [KeyObject, Cbor] {
  const { privateKey, publicKey } =
    algorithm === 'ES256'
      ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
      : algorithm === 'EdDSA'
        ? generateKeyPairSync('ed25519')
        : generateKeyPairSync('rsa', { modulusLength });
  const { x = '', y = '', n = '', e = '' } = publicKey.export({ format: 'jwk' });
  const bytes = (text: string) => new Uint8Array(Buffer.from(text, 'base64url'));
  const fields: Record<Algorithm, [number, Cbor][]> = {
    ES256: [
      [1, 2],
      [3, -7],
      [-1, 1],
      [-2, bytes(x)],
      [-3, bytes(y)],
    ],
    EdDSA: [
      [1, 1],
      [3, -8],
      [-1, 6],
      [-2, bytes(x)],
    ],
    RS256: [
      [1, 3],
      [3, -257],
      [-1, bytes(n)],
      [-2, bytes(e)],
    ],
  };
  return [privateKey, new Map(fields[algorithm])];
}
