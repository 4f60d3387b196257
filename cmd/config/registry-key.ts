/** REGISTRY_SIGNING_KEY: the PEM itself, or the path of a file with it. */
import { readFileSync, statSync } from 'node:fs';
import { parseRegistryKey, type RegistryKey, RegistryKeyError } from '../../actors/auth/registry/registry-key.ts';

const EXPECTED = 'must be a PEM with an EC P-256 private key, or the path of a file with one';
/** Far more than a key with its chain takes. */
const MAX_BYTES = 256 * 1024;

/** Reads the key. Throws RegistryKeyError, which says what was expected and shows nothing of the value. */
export function readRegistryKey(value: string): RegistryKey {
  return parseRegistryKey(value.includes('-----BEGIN') ? value.replaceAll('\\n', '\n') : readKeyFile(value));
}

function readKeyFile(path: string): string {
  try {
    const stats = statSync(path);
    if (stats.isFile() && stats.size <= MAX_BYTES) return readFileSync(path, 'utf8');
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? ` (${String(cause.code)})` : '';
    throw new RegistryKeyError(`${EXPECTED}: there is none that can be read${code}`, cause);
  }
  throw new RegistryKeyError(`${EXPECTED}: this is no such file`);
}
