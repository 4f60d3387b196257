import type { HttpAnswer } from '../../proto/ports/http.ts';
import { checkReply, internalError } from './reply-head.ts';

/** The reply, or a bare 500 in its place when it cannot be sent as it is. */
export function soundReply(reply: HttpAnswer): HttpAnswer {
  try {
    checkReply(reply);
    return reply;
  } catch {
    dropStream(reply);
    return internalError;
  }
}

/** Ends a stream that nobody will read. */
export function dropStream(reply: HttpAnswer | undefined): void {
  if (typeof reply !== 'object' || reply === null || !('source' in reply)) return;
  try {
    reply.source.closed();
  } catch {
    // It never began, and nobody is left to tell.
  }
}
