/** Refusals of WebSockets that browsers can read: they tell a page nothing of an answer before the upgrade. */
import { fittingReason } from '../../lib/close-frame.ts';
import { ERRORS, type Refusal } from '../../proto/errors.ts';
import type { SocketHandlers } from '../../proto/ports/http.ts';

/** Close codes of applications begin here (RFC 6455, section 7.4.2); the status of the refusal follows. */
const FIRST_CODE = 4000;

/** A socket that is closed at once: with 4401 for a 401, say, and the sentence of the refusal. */
export function refusedSocket({ code, message }: Refusal): SocketHandlers {
  return {
    open: (socket) => socket.close(FIRST_CODE + ERRORS[code].status, fittingReason(message)),
    message() {},
    drain() {},
    close() {},
  };
}
