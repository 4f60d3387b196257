/** How a connection becomes a WebSocket: what all adapters check, and how Troupe's own server switches. */
import { createHash } from 'node:crypto';
import type { HttpReply, UpgradeAnswer } from '../../proto/ports/http.ts';
import { TOKEN } from '../wire/h1/syntax.ts';
import type { Wire } from '../wire/wire.ts';
import type { ConnectionContext } from './own-context.ts';
import type { OwnRequest } from './own-request.ts';
import { badRequest, plainError } from './reply-head.ts';

/** Whether the head asks to become a WebSocket: `Upgrade` lists `websocket` (RFC 6455, section 4.2.1). */
export function asksForWebSocket(upgrade: string | undefined): boolean {
  return upgrade?.toLowerCase().includes('websocket') === true;
}

/** Sixteen bytes in base64, nothing else. */
const KEY = /^[A-Za-z0-9+/]{21}[AQgw]==$/;

/**
 * Checks the head of an upgrade request (RFC 6455, section 4.2.1). `header` reads a header by lower-case name. Returns
 * the refusal: 426 for a version other than 13, 400 for a missing or malformed part; undefined when it is sound.
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

/** RFC 6455, section 1.3: what makes the answer to a key. */
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

/** The answer that makes it a WebSocket, to a head that was checked. Of the protocols offered the first is spoken. */
function switchText(header: (name: string) => string | undefined): string {
  const accept = createHash('sha1')
    .update(`${header('sec-websocket-key')}${GUID}`)
    .digest('base64');
  const [first = ''] = (header('sec-websocket-protocol') ?? '').split(',');
  const protocol = TOKEN.test(first.trim()) ? `sec-websocket-protocol: ${first.trim()}\r\n` : '';
  return (
    `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: ` +
    `${accept}\r\n${protocol}\r\n`
  );
}

/** Why the request cannot become a WebSocket, whoever asks. */
export function upgradeRefusal(request: OwnRequest): HttpReply | undefined {
  const problem = upgradeProblem((name) => request.header(name));
  if (problem !== undefined) return problem;
  // Bytes that follow would be taken for a body by one side and for frames by the other.
  return request.content !== undefined || request.head.minor === 0 ? badRequest : undefined;
}

/** Switches: the wire is the WebSocket's from now on. `early`: what came after the request. */
export function switchOver(
  { wire, request, context }: { wire: Wire; request: OwnRequest; context: ConnectionContext },
  { accept, watch }: Extract<UpgradeAnswer, { accept: unknown }>,
  early: readonly Buffer[],
): void {
  const socket = context.socketOn(wire, accept);
  wire.resume();
  wire.cork();
  wire.write(switchText((name) => request.header(name)));
  socket.opened(watch);
  wire.uncork();
  for (const chunk of early) socket.onData(chunk);
}
