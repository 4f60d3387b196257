import type { HttpReply, HttpStreamReply } from '../../proto/http.ts';
import { checkReply, internalError } from './reply-head.ts';

/** The reply, or a bare 500 in its place when it cannot be sent as it is. */
export function soundReply(reply: HttpReply | HttpStreamReply): HttpReply | HttpStreamReply {
  try {
    checkReply(reply);
    return reply;
  } catch {
    dropStream(reply);
    return internalError;
  }
}

/** Ends a stream that nobody will read. */
export function dropStream(reply: HttpReply | HttpStreamReply | undefined): void {
  if (typeof reply !== 'object' || reply === null || !('stream' in reply)) return;
  try {
    Promise.resolve(reply.stream[Symbol.asyncIterator]().return?.()).catch(() => undefined);
  } catch {
    // It never began, so there is nothing to end.
  }
}
