/** `troupe mcp`: the platform's work as tools for programs that act for people. */
import { addressOf } from '../config/page-address.ts';
import { serveStdio } from '../mcp/stdio.ts';
import { type ClientCommandOptions, openSession } from './session.ts';

/** Serves until the input ends. */
export async function serveTools(options: ClientCommandOptions): Promise<void> {
  const { client, profile, out } = openSession(options);
  const address = (port: number, hostname: string) => addressOf(port, hostname, profile.url, profile.plainUrl);
  await serveStdio({ client, address }, (error) => out.note(`troupe: ${String(error)}`));
  client.close();
}
