/** `troupe whoami`. */
import { X509Certificate } from 'node:crypto';
import { type CallReply, TroupeError } from '../../client/index.ts';
import { type ClientCommandOptions, openSession } from './session.ts';

/** SHA-256 of the certificate, as openssl and browsers show it. Throws if it is none. */
export function fingerprint(pem: string): string {
  return `SHA-256 ${new X509Certificate(pem).fingerprint256}`;
}

function limitsText({ containers, ssh_keys, images_mb }: CallReply<'showPlatformFacts'>['limits']): string {
  const images = images_mb === undefined ? '' : `, ${images_mb} MiB of images`;
  return `${containers} containers, ${ssh_keys} SSH keys${images}`;
}

/** Prints who is logged in, where, and how much they may have. */
export async function whoAmI(options: ClientCommandOptions): Promise<void> {
  const { client, profile, out } = openSession(options);
  const authority = profile.authority === undefined ? undefined : `its own, ${fingerprint(profile.authority)}`;
  try {
    const [session, { limits }] = await Promise.all([client.call('session'), client.call('showPlatformFacts')]);
    out.details({ ...session, limits }, [
      ['user', session.username],
      ['name', session.display_name],
      ['id', session.user_id],
      ['role', session.is_admin ? 'administrator' : 'user'],
      ['limits', limitsText(limits)],
      ['platform', profile.url],
      ['authority', authority],
      ['profile', profile.name],
    ]);
  } catch (error) {
    if (!(error instanceof TroupeError && error.status === 403)) throw error;
    const answer = { username: null, url: profile.url };
    out.details(answer, [
      ['user', 'unknown: this is an API token'],
      ['platform', profile.url],
      ['profile', profile.name],
    ]);
  }
}
