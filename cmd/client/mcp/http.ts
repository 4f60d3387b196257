/** The tools over HTTP: each message is answered by a server of its own, so that nothing is kept between two. */
import { Readable } from 'node:stream';
import * as http from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import type { ToolReply, ToolRequest } from '../../../proto/ports/tools.ts';
import { mcpServer } from './server.ts';

/** The head of the answer goes out with the first of them. */
const KEEP_ALIVE_MS = 5000;
const VERSION = 'mcp-protocol-version';
const BOTH = 'application/json, text/event-stream';

/** Answers a message. `url`: where the platform serves the tools. */
export async function answerMessage(
  { message, header, signal }: Pick<ToolRequest, 'message' | 'header' | 'signal'>,
  url: string,
  ...[context, log]: Parameters<typeof mcpServer>
): Promise<ToolReply> {
  const server = mcpServer(context, log);
  const transport = new http.WebStandardStreamableHTTPServerTransport({ keepAliveMs: KEEP_ALIVE_MS });
  await server.connect(transport);
  const accept = header('accept') ?? '*/*';
  const headers = new Headers({ accept: accept === '*/*' ? BOTH : accept, 'content-type': 'application/json' });
  const version = header(VERSION);
  if (version !== undefined) headers.set(VERSION, version);
  const request = new Request(url, { method: 'POST', headers });
  const response = await transport.handleRequest(request, { parsedBody: message });
  const bytes = response.body === null ? Readable.from([]) : Readable.fromWeb(response.body);
  // What a tool does is given up with whoever asked for it.
  const end = () => void server.close();
  bytes.once('close', end);
  signal.addEventListener('abort', () => bytes.destroy(), { once: true });
  // The first request waits for the program's parts: its client may have left meanwhile.
  if (signal.aborted) bytes.destroy();
  return { status: response.status, headers: [...response.headers], bytes };
}
