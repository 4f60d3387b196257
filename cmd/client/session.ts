/** A client of the profile that a command is for. */
import { TroupeClient } from '../../client/index.ts';
import { type ByteAnswer, type ByteRequest, nodeTransport } from '../../client/node/index.ts';
import { version } from '../config/program.ts';
import { Output, type OutputOptions } from './output.ts';
import { chooseProfile, type Profile } from './profiles.ts';

const USER_AGENT = `troupe/${version}`;

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

/** The same, with requests whose bodies stream. */
export function openFiles(options: ClientCommandOptions) {
  const session = openSession(options);
  const { url, token, authority } = session.profile;
  const transport = nodeTransport({ authority, userAgent: USER_AGENT });
  const files = (
    method: string,
    path: string,
    { headers, ...rest }: Pick<ByteRequest, 'body' | 'length' | 'headers'>,
  ): Promise<ByteAnswer> => {
    const all = { authorization: `Bearer ${token}`, ...headers };
    return transport.stream({ method, url: new URL(path, url).href, headers: all, ...rest });
  };
  return { ...session, files };
}

/** A client of a platform. */
export function clientOf({
  url,
  token,
  authority,
}: Pick<Profile, 'url' | 'authority'> & { token?: string }): TroupeClient {
  const transport = nodeTransport({ authority, userAgent: USER_AGENT });
  return new TroupeClient({ url, token, transport });
}

/** The caller's own id: known from the login, or asked for. */
export async function ownId({ client, profile }: ClientSession): Promise<string> {
  return profile.userId ?? (await client.call('session')).user_id;
}
