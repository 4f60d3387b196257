/** A client of the profile that a command is for. */
import { limitNotice } from './limit-notice.ts';
import { Output, type OutputOptions } from './output.ts';
import type { OpenedClient } from './place.ts';

/** Options of all client commands. */
export interface ClientCommandOptions extends OutputOptions {
  readonly profile?: string;
}

/** What the work of a command needs. */
export interface ClientSession extends OpenedClient {
  readonly out: Output;
}

/** Throws ClientFailure if nobody is logged in. */
export function openSession(options: ClientCommandOptions): ClientSession {
  const out = new Output(options);
  return { ...options.place.open(options.profile, limitNotice(out)), out };
}

/** The caller's own id: known from the login, or asked for. */
export async function ownId({ client, profile }: ClientSession): Promise<string> {
  return profile.userId ?? (await client.call('session')).user_id;
}
