/** `troupe mcp`: the platform's work as tools for programs that act for people. */
import { addressOf, type OpenPort } from '../config/page-address.ts';
import { serveStdio } from '../mcp/stdio.ts';
import { type ClientCommandOptions, openSession } from './session.ts';

/** Serves until the input ends. */
export async function serveTools(options: ClientCommandOptions): Promise<void> {
  const { client, profile, out } = openSession(options);
  const address = (rule: OpenPort, hostname: string) => addressOf(rule, hostname, profile.url, profile.plainUrl);
  await serveStdio({ client, address }, (error) => out.note(`troupe: ${String(error)}`));
  client.close();
}
