/** The bounds all adapters keep, so that one behaviour holds on each. Sizes in bytes, times in milliseconds. */

/** Request line and headers together. */
export const MAX_HEAD_BYTES = 16 * 1024;
/** Header lines of a request. */
export const MAX_HEADERS = 100;
/** How long a request head may take to arrive, and how long a kept connection may idle. */
export const HEAD_TIMEOUT_MS = 10_000;
/** How long a whole request may take to arrive; uWebSockets.js ends a body that stalls for ten seconds instead. */
export const BODY_TIMEOUT_MS = 60_000;
/** How long a client may take none of an answer on Troupe's own server; uWebSockets.js gives it ten seconds. */
export const STALL_TIMEOUT_MS = 60_000;
/** How long a connection that ended with its answer is read on, so that a reset does not overtake the answer. */
export const LINGER_MS = 2_000;
/** How long a closing server waits for WebSocket peers to answer the closing handshake, at most. */
export const GOODBYE_MS = 250;
/** Bytes a client may send after its upgrade request before that is answered; the rest waits in the network. */
export const EARLY_FRAME_BYTES = 64 * 1024;
/** Body bytes held before the handler asked for them; the sender then waits. */
export const EARLY_BODY_BYTES = 1024 * 1024;
/**
 * Body bytes read and dropped after a handler answered without reading them, so that the client has room to see the
 * answer. A client that sends more is cut off.
 */
export const MAX_DISCARD_BYTES = 8 * 1024 * 1024;
/** Methods that reach a handler. CONNECT and TRACE have no meaning here. */
export const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** Largest WebSocket message taken when the options do not say. */
export const MAX_MESSAGE_BYTES = 64 * 1024;
/** Most bytes queued for a slow WebSocket reader when the options do not say. */
export const MAX_BUFFERED_BYTES = 1024 * 1024;
/** WebSocket ping period when the options do not say. */
export const PING_MS = 25_000;
