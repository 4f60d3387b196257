/** The platform's work as tools for programs that act for people (Model Context Protocol), over HTTP. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';

/** Requests of one user that a process answers at a time. */
export const MAX_TOOL_REQUESTS = 16;
/** Largest message, bytes. */
export const MAX_TOOL_MESSAGE = 2 * 1024 * 1024;

export const useTools = endpoint('useTools', 'POST /mcp', {
  service: 'network',
  // A scope is needed by what a tool calls, not by the tools.
  access: 'token',
  summary:
    'Streamable HTTP of the Model Context Protocol, without sessions: a message is answered by an event stream. The ' +
    'token comes as a bearer only',
  refuses: ['invalid_json', 'invalid_request', 'limit_reached', 'body_too_large', 'unavailable'],
  actor: { kind: 'network/tools', key: 'caller' },
  bytes: true,
  rateLimit: 'exempt',
});

/** One message. Several in one request would pass by the bound on requests. */
export const toolMessageSchema = z.looseObject({ jsonrpc: z.literal('2.0') });
