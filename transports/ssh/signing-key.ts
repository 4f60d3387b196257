/** Private keys that sign fast: ssh2 reads its PEM anew for each signature, ten times the signature's own work. */
import { createPrivateKey, sign } from 'node:crypto';
import ssh2, { type ParsedKey } from 'ssh2';

let last: { readonly text: string; readonly key: ParsedKey | Error } | undefined;

/** Reads a private key in OpenSSH or PEM form; an Error when it is none. The key that was read last is remembered. */
export function signingKey(text: string): ParsedKey | Error {
  if (last?.text !== text) last = { text, key: read(text) };
  return last.key;
}

function read(text: string): ParsedKey | Error {
  const key = ssh2.utils.parseKey(text);
  // Of other types ssh2 knows the hash that goes with the curve.
  if (key instanceof Error || !(key.type === 'ssh-ed25519' || key.type === 'ssh-rsa')) return key;
  const secret = createPrivateKey(key.getPrivatePEM());
  const usual = key.type === 'ssh-ed25519' ? null : 'sha256';
  Object.defineProperty(key, 'sign', {
    value: (data: Buffer, hash?: string) => sign(hash === undefined || hash === '' ? usual : hash, data, secret),
  });
  return key;
}
