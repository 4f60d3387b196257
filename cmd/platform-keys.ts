/** What makes this platform itself: the installation's id, and the SSH key that opens its containers, sealed at rest. */
import type { KeyObject } from 'node:crypto';
import { newId } from '../proto/ids.ts';
import type { Db } from '../storage/db.ts';
import { open, SealError, seal } from '../storage/seal.ts';
import { getOrCreateSetting } from '../storage/settings.ts';
import { generateKeyPair } from '../transports/ssh/keys.ts';
import { CliError } from './cli-error.ts';

const KEY_SETTING = 'platform_ssh_key';
const KEY_CONTEXT = `settings/${KEY_SETTING}`;

/** Reads both, or makes them at the first start. Throws CliError when ENCRYPTION_KEY is not the one they were sealed with. */
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
  try {
    return {
      installation,
      keys: { publicKey, privateKey: open(encryptionKey, KEY_CONTEXT, Buffer.from(sealed, 'base64')).toString() },
    };
  } catch (cause) {
    if (!(cause instanceof SealError)) throw cause;
    throw new CliError('ENCRYPTION_KEY is not the key this database was set up with: give the right one.', { cause });
  }
}
