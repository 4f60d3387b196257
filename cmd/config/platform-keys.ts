/**
 * What makes this platform itself: the installation's id, the SSH key that opens its containers, and the keys its SSH
 * server proves itself with, sealed at rest.
 */
import type { KeyObject } from 'node:crypto';
import { newId } from '../../proto/ids.ts';
import type { Db } from '../../storage/db.ts';
import { open, SealError, seal } from '../../storage/seal.ts';
import { getOrCreateSetting } from '../../storage/settings.ts';
import { generateKeyPair, generateRsaKey } from '../../transports/ssh/keys.ts';
import { CliError } from './cli-error.ts';

const KEY_SETTING = 'platform_ssh_key';
const KEY_CONTEXT = `settings/${KEY_SETTING}`;
const HOST_KEYS = { ed25519: 'ssh_host_key_ed25519', rsa: 'ssh_host_key_rsa' } as const;

/** Settings that hold what is sealed, each in its last line, bound to `settings/<its name>`. */
export const SEALED_SETTINGS: readonly string[] = [KEY_SETTING, HOST_KEYS.ed25519, HOST_KEYS.rsa];

/** Reads both, or makes them at the first start. Throws CliError for an ENCRYPTION_KEY that did not seal them. */
export async function platformKeys(
  db: Db,
  encryptionKey: KeyObject,
): Promise<{ installation: string; keys: { privateKey: string; publicKey: string } }> {
  const installation = await getOrCreateSetting(db, 'installation', newId);
  const stored = await getOrCreateSetting(db, KEY_SETTING, () => {
    const { privateKey, publicKey } = generateKeyPair('troupe-platform');
    return `${publicKey}\n${seal(encryptionKey, KEY_CONTEXT, Buffer.from(privateKey)).toString('base64')}`;
  });
  const [publicKey = '', sealed = ''] = stored.split('\n');
  return { installation, keys: { publicKey, privateKey: unsealed(encryptionKey, KEY_CONTEXT, sealed) } };
}

/**
 * The private keys of the gateway's SSH server, the same for all gateways of a platform: read, or made at the first
 * start. Throws as `platformKeys`.
 */
export async function sshHostKeys(db: Db, encryptionKey: KeyObject): Promise<string[]> {
  const kept = async (setting: string, make: () => string | Promise<string>) => {
    const context = `settings/${setting}`;
    const stored = await getOrCreateSetting(db, setting, async () =>
      seal(encryptionKey, context, Buffer.from(await make())).toString('base64'),
    );
    return unsealed(encryptionKey, context, stored);
  };
  return [
    await kept(HOST_KEYS.ed25519, () => generateKeyPair('troupe-gateway').privateKey),
    // For clients that know nothing newer.
    await kept(HOST_KEYS.rsa, generateRsaKey),
  ];
}

function unsealed(encryptionKey: KeyObject, context: string, sealed: string): string {
  try {
    return open(encryptionKey, context, Buffer.from(sealed, 'base64')).toString();
  } catch (cause) {
    if (!(cause instanceof SealError)) throw cause;
    throw new CliError(
      'ENCRYPTION_KEY is not the key this database was set up with: give the right one, or run `troupe rekey` ' +
        'again if it was interrupted.',
      { cause },
    );
  }
}
