/** How a connection of Troupe's own server becomes a WebSocket. */
import type { HttpReply, UpgradeAnswer } from '../../proto/ports/http.ts';
import type { Wire } from '../wire/wire.ts';
import type { ConnectionContext } from './own-context.ts';
import type { OwnRequest } from './own-request.ts';
import { badRequest } from './reply-head.ts';
import { switchText, upgradeProblem } from './upgrade.ts';

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
