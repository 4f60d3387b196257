/** The server of the Model Context Protocol: the platform's work as tools for programs that act for people. */
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import {
  CallToolRequestSchema,
  type CallToolResult,
  ErrorCode,
  ListToolsRequestSchema,
  McpError,
} from '@modelcontextprotocol/sdk/types.js';
import { TroupeError } from '../../../client/index.ts';
import { version } from '../../config/program.ts';
import { CONTAINER_TOOLS } from './container-tools.ts';
import { INSIDE_TOOLS } from './inside-tools.ts';
import { NETWORK_TOOLS } from './network-tools.ts';
import type { Tool, ToolContext } from './tool.ts';

const TOOLS: ReadonlyMap<string, Tool> = new Map(
  [...CONTAINER_TOOLS, ...INSIDE_TOOLS, ...NETWORK_TOOLS].map((each) => [each.name, each]),
);

const INSTRUCTIONS =
  'Troupe runs containers for its users. A container is named by its id or its whole name. Data is kept in its ' +
  'mount_paths only. What it serves is reached from outside once a port is open. A token may be of one container ' +
  'alone: name that by its id.';

/** A server that answers one client. `log`: told of what is wrong with the platform, not with a call. */
export function mcpServer(context: Omit<ToolContext, 'signal'>, log: (error: unknown) => void): Server {
  const server = new Server(
    { name: 'troupe', title: 'Troupe', version },
    { capabilities: { tools: {} }, instructions: INSTRUCTIONS },
  );
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [...TOOLS.values()].map(({ listed }) => listed) }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params: { name, arguments: args = {} } }, { signal }) => {
    const found = TOOLS.get(name);
    if (found === undefined) throw new McpError(ErrorCode.InvalidParams, `There is no tool ${name}.`);
    try {
      const result = await found.call(args, { ...context, signal });
      return { content: [{ type: 'text', text: JSON.stringify(result) }], structuredContent: result };
    } catch (error) {
      return failed(error, log);
    }
  });
  return server;
}

/** The error of a tool, which a model reads and may act upon. */
function failed(error: unknown, log: (error: unknown) => void): CallToolResult {
  const text = JSON.stringify(describe(error, log));
  return { isError: true, content: [{ type: 'text', text }] };
}

function describe(error: unknown, log: (error: unknown) => void) {
  if (error instanceof TroupeError) {
    const { code, message, fields, requestId, retryAfter, proof } = error;
    const more = fields.length === 0 ? undefined : { fields };
    return { error: message, code, ...more, proof, request_id: requestId, retry_after: retryAfter };
  }
  if (error instanceof Error && error.name === 'AbortError')
    return { error: 'The call was cancelled.', code: 'cancelled' };
  log(error);
  return { error: 'Something went wrong on our side.', code: 'internal' };
}
