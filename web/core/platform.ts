/** The one way to the platform: its client library, with the session in the cookie that no script can read. */
import { signal } from '@preact/signals';
import { TroupeClient, TroupeError, webTransport } from '../../client/index.ts';

export const transport = webTransport((input, init) => fetch(input, init), WebSocket);

/** Asks for the session in the cookie, and makes a request one that no foreign page can send without being asked. */
export const HEADERS = { 'x-troupe-session': 'cookie' } as const;

export const client = new TroupeClient({ url: location.origin, transport, headers: HEADERS });

/** Counts answers that said that nobody is logged in: whoever shows the login listens. */
export const refusedLogins = signal(0);

/** As `client.call`. Rejects with TroupeError. */
export const call: TroupeClient['call'] = async (name, ...rest) => {
  try {
    return await client.call(name, ...rest);
  } catch (error) {
    noteRefusal(error);
    throw error;
  }
};

/** To be told of every error of a call or a stream. */
export function noteRefusal(error: unknown): void {
  if (error instanceof TroupeError && error.code === 'unauthorized') refusedLogins.value++;
}

/** The error as the one that screens know. */
export function asTroupeError(error: unknown): TroupeError {
  if (error instanceof TroupeError) return error;
  return new TroupeError('unreadable', error instanceof Error ? error.message : String(error), { cause: error });
}
