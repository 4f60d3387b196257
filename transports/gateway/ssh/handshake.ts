/** How SSH begins: the client's first line, and the algorithms that are offered. */
import type { Algorithms } from 'ssh2';

/** `more`: not decided yet. */
type Verdict = 'good' | 'bad' | 'more';

/** Longest line, CR and LF among its bytes. */
const MAX_BYTES = 255;
const LINE_FEED = 0x0a;
/** Printable US-ASCII, with a blank before the comment. */
const LINE = /^SSH-(?:2\.0|1\.99)-[!-~]+(?: [ -~]*)?\r?\n$/;

/** Reads a client's first line (RFC 4253 section 4.2), in whatever pieces it comes, before anything is kept for it. */
export class Identification {
  #read = '';
  #verdict: Verdict = 'more';

  /** Takes the next bytes. Once it has said `good` or `bad` it says so for ever. */
  push(bytes: Buffer): Verdict {
    if (this.#verdict !== 'more') return this.#verdict;
    const end = bytes.indexOf(LINE_FEED);
    const part = end < 0 ? bytes : bytes.subarray(0, end + 1);
    if (this.#read.length + part.length > MAX_BYTES) this.#verdict = 'bad';
    else {
      this.#read += part.toString('latin1');
      if (end >= 0) this.#verdict = LINE.test(this.#read) ? 'good' : 'bad';
      else if (!couldBegin(this.#read)) this.#verdict = 'bad';
    }
    return this.#verdict;
  }
}

/** Whether a line may begin so: there is no need to wait for the rest of what is something else. */
function couldBegin(text: string): boolean {
  return 'SSH-'.startsWith(text.slice(0, 4));
}

/** Signatures by an RSA host key (RFC 8332), in the order of our liking. */
export const RSA_SIGNATURES = ['rsa-sha2-512', 'rsa-sha2-256'] as const;

/**
 * Nothing known to be weak, in the order of our liking; the client's decides (RFC 4253 section 7.1). Without
 * finite-field Diffie-Hellman: one packet can ask for tens of milliseconds of it. Without compression: few bytes could
 * become very many.
 */
export const OFFERED = {
  kex: ['curve25519-sha256', 'curve25519-sha256@libssh.org'],
  serverHostKey: ['ssh-ed25519', ...RSA_SIGNATURES],
  cipher: [
    'aes128-gcm@openssh.com',
    'aes256-gcm@openssh.com',
    'chacha20-poly1305@openssh.com',
    'aes128-ctr',
    'aes192-ctr',
    'aes256-ctr',
  ],
  hmac: ['hmac-sha2-256-etm@openssh.com', 'hmac-sha2-512-etm@openssh.com'],
  compress: ['none'],
} satisfies Algorithms;

/** Signatures that are taken of clients (RFC 8308 section 3.1): no SHA-1. */
export const CLIENT_SIGNATURES = [
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'rsa-sha2-512',
  'rsa-sha2-256',
];

/** Towards containers: the ciphers that cost least first; whatever else an image's server has, after them. */
export const TOWARDS_CONTAINERS = {
  cipher: [
    'aes128-gcm@openssh.com',
    'aes256-gcm@openssh.com',
    'aes128-ctr',
    'aes256-ctr',
    'chacha20-poly1305@openssh.com',
  ],
  compress: ['none'],
} satisfies Algorithms;
