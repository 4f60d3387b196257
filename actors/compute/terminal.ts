/** A connection to a terminal: frames of the WebSocket to the shell of its session, which may outlive it. */
import { resizeSchema } from '../../proto/compute.ts';
import { Refusal } from '../../proto/errors.ts';
import type { Socket } from '../../proto/http.ts';
import { dispatch } from '../../supervision/index.ts';
import type { Connection } from '../streams.ts';
import type { TerminalSession, Viewer } from './terminal-session.ts';
import type { TerminalRequest, Terminals } from './terminals.ts';

/** The terminal that `request` asks for. */
export function terminalConnection(terminals: Terminals, request: TerminalRequest): Connection {
  let socket: Socket | undefined;
  let viewer: Viewer | undefined;
  let session: TerminalSession | undefined;

  return {
    open(opened, self) {
      socket = opened;
      viewer = { socket: opened, connection: self, caller: request.caller };
      try {
        session = terminals.join(request, viewer);
      } catch (error) {
        // Others of this user came first since it was let in.
        if (!(error instanceof Refusal)) throw error;
        dispatch(self, { type: 'close', code: 1008, reason: error.message });
      }
    },
    closed(code) {
      if (viewer !== undefined) session?.leave(viewer, code);
    },
    binary(data) {
      if (viewer !== undefined) session?.input(viewer, data);
    },
    text(data) {
      const size = parseResize(data);
      if (size === undefined) socket?.close(1003, 'text frames carry {"type":"resize","cols","rows"} only');
      else if (viewer !== undefined) session?.resize(viewer, size);
    },
    drain() {
      if (viewer !== undefined) session?.drained(viewer);
    },
  };
}

function parseResize(text: string): { cols: number; rows: number } | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return resizeSchema.safeParse(value).data;
  } catch {
    return undefined;
  }
}
