/** Public keys as users add them. */
import { generateKeyPairSync } from 'node:crypto';

/** A new Ed25519 key in OpenSSH's form. */
export function publicKey(comment = 'ann@laptop'): string {
  const { x = '' } = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' });
  const parts = [Buffer.from('ssh-ed25519'), Buffer.from(x, 'base64url')];
  const blob = Buffer.concat(
    parts.flatMap((part) => {
      const length = Buffer.alloc(4);
      length.writeUInt32BE(part.byteLength);
      return [length, part];
    }),
  );
  return `ssh-ed25519 ${blob.toString('base64')} ${comment}`.trim();
}
