/**
 * Takes TLS connections: reads the server name before the handshake, then ends TLS here, passes it through untouched,
 * or refuses with the alert that says why. Listens nowhere itself: listeners hand connections to it.
 */
import { X509Certificate } from 'node:crypto';
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import { readPrivateKey } from '../../../lib/private-key.ts';
import type { PassedName } from '../../../proto/gateway/gateway-decider.ts';
import { NOBODY, type Wire } from '../../wire/wire.ts';
import { readFirstOfWire } from '../tcp/first-bytes.ts';
import type { Turns } from '../tcp/turns.ts';
import { type ClientHello, readClientHello } from './client-hello.ts';

/** A certificate with its key, ready for handshakes. */
export type Certificate = SecureContext;

/** What to do with a server name. */
export type TlsDecision =
  | { readonly end: SecureContext }
  | PassedName
  /** The challenge of a certificate authority is answered with this, and the connection ends (RFC 8737). */
  | { readonly challenge: SecureContext }
  /** `true`: no such name is served here. */
  | { readonly refuse: true | RefusalAlert };

/** Why a name is refused: it is not served here, no such protocol is spoken, or its certificate is not there (yet). */
type RefusalAlert = 'unrecognized_name' | 'no_application_protocol' | 'internal_error';

interface TlsFrontOptions {
  /**
   * Decides about a name; undefined: the client named none. `isChallenge`: it offers `acme-tls/1` and nothing else, as
   * authorities do. It does not throw.
   */
  readonly decide: (serverName: string | undefined, isChallenge: boolean) => TlsDecision | Promise<TlsDecision>;
  /** TLS was ended: what follows is plain. `serverName` is empty when none was named. */
  readonly onPlain: (socket: TLSSocket, address: string, serverName: string) => void;
  /** TLS is to be passed on: the paused connection, with what was read of it. */
  readonly onPass: (wire: Wire, address: string, hello: Buffer, to: PassedName, serverName: string) => void;
  /** When a handshake begins; undefined: at once. */
  readonly turns?: Turns;
  /** How long a client may take to say hello, then wait for its turn, and then take for the handshake, ms. */
  readonly helloMs?: number;
}

/** The protocol of TLS-ALPN-01 (RFC 8737, section 3). */
const ACME = 'acme-tls/1';

const HELLO_MS = 10_000;
/** How long a client that is refused may take to read why, ms. */
const LINGER_MS = 1000;

/** Fatal alerts (RFC 8446, section 6), each in a record of its own. */
const ALERTS = {
  unrecognized_name: Buffer.of(0x15, 3, 3, 0, 2, 2, 112),
  decode_error: Buffer.of(0x15, 3, 3, 0, 2, 2, 50),
  no_application_protocol: Buffer.of(0x15, 3, 3, 0, 2, 2, 120),
  internal_error: Buffer.of(0x15, 3, 3, 0, 2, 2, 80),
} as const;

/**
 * A certificate with its key, ready for handshakes. Clients that come back resume with it, and with no other (its
 * ticket keys are its own). Throws when either is none or they do not fit: a context takes an empty certificate, of a
 * file that is just being written, and then refuses every client.
 */
export function certificateContext(pem: { readonly cert: string; readonly key: string }): Certificate {
  if (!new X509Certificate(pem.cert).checkPrivateKey(readPrivateKey(pem.key)))
    throw new Error('The private key is not that of the certificate.');
  return createSecureContext({ ...pem, minVersion: 'TLSv1.2', honorCipherOrder: true, sessionIdContext: 'troupe' });
}

/** Takes TLS connections and does what was decided about their names. */
export class TlsFront {
  readonly #options: TlsFrontOptions;
  readonly #helloMs: number;

  constructor(options: TlsFrontOptions) {
    this.#options = options;
    this.#helloMs = options.helloMs ?? HELLO_MS;
  }

  /** Takes a paused connection that should speak TLS, of which `first` has been read. */
  accept(wire: Wire, address: string, first?: Buffer): void {
    const asks = {
      decide: helloOf,
      onDecided: (hello: ClientHello | 'invalid', bytes: Buffer) => this.#heard(wire, address, hello, bytes),
      onTimeout: () => wire.destroy(),
    };
    readFirstOfWire(wire, this.#helloMs, asks, first);
  }

  #heard(wire: Wire, address: string, hello: ClientHello | 'invalid', bytes: Buffer): void {
    if (hello === 'invalid') {
      refuse(wire, 'decode_error');
      return;
    }
    const isChallenge = hello.protocols.length === 1 && hello.protocols[0] === ACME;
    const decision = this.#options.decide(hello.serverName, isChallenge);
    if (decision instanceof Promise) void decision.then((later) => this.#decided(wire, address, hello, bytes, later));
    else this.#decided(wire, address, hello, bytes, decision);
  }

  #decided(wire: Wire, address: string, hello: ClientHello, bytes: Buffer, decision: TlsDecision): void {
    if (wire.isDestroyed) return;
    if ('refuse' in decision) refuse(wire, decision.refuse === true ? 'unrecognized_name' : decision.refuse);
    else if ('passTo' in decision) this.#options.onPass(wire, address, bytes, decision, hello.serverName ?? '');
    else if ('challenge' in decision) this.#handshake(wire, bytes, decision.challenge, ACME, (socket) => socket.end());
    else {
      const onPlain = (socket: TLSSocket) => this.#options.onPlain(socket, address, hello.serverName ?? '');
      // RFC 7301: HTTP/1.1 is all that is spoken. Whoever offers only others is refused; whoever offers none is not.
      this.#inTurn(wire, address, () => this.#handshake(wire, bytes, decision.end, 'http/1.1', onPlain));
    }
  }

  /** Has it begin in its turn; a client whose turn does not come in time is closed, which costs next to nothing. */
  #inTurn(wire: Wire, address: string, begin: () => void): void {
    const { turns } = this.#options;
    if (turns === undefined) {
      begin();
      return;
    }
    let timer: NodeJS.Timeout | undefined;
    const leave = turns.enter(address, {
      begin: () => {
        clearTimeout(timer);
        wire.reader = NOBODY;
        begin();
      },
      end: () => wire.destroy(),
    });
    if (leave === undefined) return;
    timer = setTimeout(() => wire.destroy(), this.#helloMs);
    const onClose = () => {
      clearTimeout(timer);
      leave();
    };
    wire.reader = { ...NOBODY, onClose };
  }

  #handshake(
    wire: Wire,
    bytes: Buffer,
    secureContext: SecureContext,
    protocol: string,
    onSecure: (socket: TLSSocket) => void,
  ): void {
    const socket = wire.toSocket();
    // Wrapping takes over what was read and not used.
    socket.unshift(bytes);
    const secured = new TLSSocket(socket, { isServer: true, secureContext, ALPNProtocols: [protocol] });
    const timer = setTimeout(() => secured.destroy(), this.#helloMs);
    secured.on('error', () => secured.destroy());
    // A record that cannot be decrypted after the handshake: its alert has been sent. Of a socket that no tls.Server
    // made, Node tells so by this event only, and leaves the connection open.
    secured.on('_tlsError', () => secured.destroy());
    secured.once('close', () => {
      clearTimeout(timer);
      socket.destroy();
    });
    // A client that left in the middle of the handshake.
    const onEnd = () => secured.destroy();
    secured.once('end', onEnd);
    secured.once('secure', () => {
      clearTimeout(timer);
      secured.off('end', onEnd);
      onSecure(secured);
    });
  }
}

function helloOf(bytes: Buffer): ClientHello | 'invalid' | undefined {
  const hello = readClientHello(bytes);
  return hello === 'incomplete' ? undefined : hello;
}

function refuse(wire: Wire, alert: keyof typeof ALERTS): void {
  wire.write(ALERTS[alert]);
  wire.end();
  // What the client still says is read and dropped, so that a reset does not overtake the alert.
  const timer = setTimeout(() => wire.destroy(), LINGER_MS);
  wire.reader = { ...NOBODY, onClose: () => clearTimeout(timer) };
  wire.resume();
}
