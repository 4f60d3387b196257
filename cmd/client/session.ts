/** A client of the profile that a command is for. */
import { TroupeClient } from '../../client/index.ts';
import { nodeTransport } from '../../client/node/index.ts';
import { version } from '../config/program.ts';
import { Output, type OutputOptions } from './output.ts';
import { chooseProfile, type Profile } from './profiles.ts';

/** Options of all client commands. */
export interface ClientCommandOptions extends OutputOptions {
  readonly profile?: string;
}

/** What the work of a command needs. */
export interface ClientSession {
  readonly client: TroupeClient;
  readonly profile: Profile;
  readonly out: Output;
}

/** Throws ClientFailure if nobody is logged in. */
export function openSession(options: ClientCommandOptions): ClientSession {
  const profile = chooseProfile(options.profile);
  return { client: clientOf(profile), profile, out: new Output(options) };
}

/** A client of a platform. */
export function clientOf({
  url,
  token,
  authority,
}: Pick<Profile, 'url' | 'authority'> & { token?: string }): TroupeClient {
  const transport = nodeTransport({ authority, userAgent: `troupe/${version}` });
  return new TroupeClient({ url, token, transport });
}

/** The caller's own id: known from the login, or asked for. */
export async function ownId({ client, profile }: ClientSession): Promise<string> {
  return profile.userId ?? (await client.call('session')).user_id;
}
