/** Clients of the platforms that profiles of this machine name. */
import { type ClientOptions, TroupeClient } from '../../client/index.ts';
import { type ByteAnswer, type ByteRequest, nodeTransport } from '../../client/node/index.ts';
import { addressAt } from '../../client/path.ts';
import { version } from '../config/program.ts';
import { limitNotice } from './limit-notice.ts';
import { Output } from './output.ts';
import type { Profile } from './place.ts';
import { chooseProfile } from './profiles.ts';
import type { ClientCommandOptions } from './session.ts';

const USER_AGENT = `troupe/${version}`;

/** A client of a platform. */
export function clientOf(
  { url, token, authority }: Pick<Profile, 'url' | 'authority'> & { token?: string },
  options: Pick<ClientOptions, 'onLimitWait'> = {},
): TroupeClient {
  const transport = nodeTransport({ authority, userAgent: USER_AGENT });
  return new TroupeClient({ url, token, transport, ...options });
}

/** Requests to any address, whose bodies stream, and which trust what the profile trusts. */
export function requester({ authority }: Pick<Profile, 'authority'>): (request: ByteRequest) => Promise<ByteAnswer> {
  return nodeTransport({ authority, userAgent: USER_AGENT }).stream;
}

/** A session with requests whose bodies stream. Throws ClientFailure if nobody is logged in. */
export function openFiles(options: ClientCommandOptions) {
  const profile = chooseProfile(options.profile);
  const { url, token, authority } = profile;
  const transport = nodeTransport({ authority, userAgent: USER_AGENT });
  const files = (
    method: string,
    path: string,
    { headers, ...rest }: Pick<ByteRequest, 'body' | 'length' | 'headers'>,
  ): Promise<ByteAnswer> => {
    const all = { authorization: `Bearer ${token}`, ...headers };
    return transport.stream({ method, url: addressAt(url, path).href, headers: all, ...rest });
  };
  const out = new Output(options);
  return { client: clientOf(profile, limitNotice(out)), profile, out, files };
}

/** What that opens. */
export type FileSession = ReturnType<typeof openFiles>;
