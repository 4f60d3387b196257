/** The tools over standard input and output. */
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { mcpServer } from './server.ts';

/** Serves one client until the input ends. Standard output is the protocol's alone. */
export async function serveStdio(...[context, log]: Parameters<typeof mcpServer>): Promise<void> {
  const server = mcpServer(context, log);
  const ended = new Promise<void>((resolve) => {
    server.onclose = resolve;
    process.stdin.once('end', resolve);
    process.stdout.once('error', () => resolve());
  });
  await server.connect(new StdioServerTransport());
  await ended;
  await server.close();
}
