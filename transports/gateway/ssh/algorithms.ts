/** What SSH clients are offered: nothing known to be weak, nothing that lets one keep the process busy. */
import type { Algorithms } from 'ssh2';

/** Signatures by an RSA host key (RFC 8332), in the order of our liking. */
export const RSA_SIGNATURES = ['rsa-sha2-512', 'rsa-sha2-256'] as const;

/**
 * In the order of our liking; the client's decides (RFC 4253 section 7.1). Without finite-field Diffie-Hellman: one
 * packet can ask for tens of milliseconds of it. Without compression: few bytes could become very many.
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
