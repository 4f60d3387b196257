import type { HttpReply } from '../../proto/http.ts';
import { plainError } from './reply-head.ts';

/** Whether the head asks to become a WebSocket: `Upgrade` lists `websocket` (RFC 6455, section 4.2.1). */
export function asksForWebSocket(upgrade: string | undefined): boolean {
  return upgrade?.toLowerCase().includes('websocket') === true;
}

/** Sixteen bytes in base64, nothing else. */
const KEY = /^[A-Za-z0-9+/]{21}[AQgw]==$/;

/**
 * Checks the head of an upgrade request (RFC 6455, section 4.2.1). `header` reads a header by lower-case name.
 * Returns the refusal: 426 for a version other than 13, 400 for a missing or malformed part; undefined when it is sound.
 */
export function upgradeProblem(header: (name: string) => string | undefined): HttpReply | undefined {
  if (header('sec-websocket-version') !== '13') {
    return plainError(426, 'upgrade_required', 'Only WebSocket version 13 is spoken here.', [
      ['sec-websocket-version', '13'],
    ]);
  }
  const connection = header('connection')
    ?.toLowerCase()
    .split(/\s*,\s*/);
  if (!connection?.includes('upgrade') || !KEY.test(header('sec-websocket-key') ?? '')) {
    return plainError(400, 'bad_upgrade', 'The WebSocket handshake is malformed.');
  }
  return undefined;
}
