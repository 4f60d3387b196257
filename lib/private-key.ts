/** Reading private keys. */
import { createPrivateKey, type KeyObject } from 'node:crypto';

/**
 * Reads a PEM as `createPrivateKey` does. Throws what that throws for one that cannot be read, or that has a password.
 *
 * OpenSSL keeps a queue of errors in each thread, and Node refuses a good key while an error of an earlier call is left
 * there, as by a public key of a security key that is none. The refusal empties the queue, so the second answer counts.
 */
export function readPrivateKey(pem: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    return createPrivateKey(pem);
  }
}
