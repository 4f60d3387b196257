/** `troupe mcp`: the platform's work as tools for programs that act for people. */
import type { Outlook } from '../../../client/index.ts';
import { outlookOf } from '../outside.ts';
import { type ClientCommandOptions, openSession } from '../session.ts';
import { serveStdio } from './stdio.ts';

/** Serves until the input ends. */
export async function serveTools(options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { client, out } = session;
  let known: Outlook | undefined;
  const outlook = async () => (known ??= await outlookOf(session, out.place));
  await serveStdio({ client, outlook }, (error) => out.note(`troupe: ${String(error)}`));
  client.close();
}
