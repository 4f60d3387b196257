/** A connection to a terminal: frames of the WebSocket to the shell of its session, which may outlive it. */

import { z } from 'zod';
import { jsonOf } from '../../../lib/input.ts';
import { resizeSchema } from '../../../proto/compute/endpoints.ts';
import { Refusal } from '../../../proto/errors.ts';
import { dispatch } from '../../../supervision/index.ts';
import type { Connection } from '../../service/connection.ts';
import type { TerminalSession, Viewer } from './session.ts';
import type { TerminalRequest, Terminals } from './terminals.ts';

/** Longer text is typed, whatever it looks like. */
const MAX_CONTROL_CHARS = 1024;
const controlSchema = z.looseObject({ type: z.string() });

/** The terminal that `request` asks for. */
export function terminalConnection(terminals: Terminals, request: TerminalRequest): Connection {
  let viewer: Viewer | undefined;
  let session: TerminalSession | undefined;

  return {
    open(opened, self) {
      viewer = { socket: opened, connection: self, caller: request.caller, tellsExit: request.tellsExit };
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
      if (viewer === undefined) return;
      const control = readControl(data);
      if (control === undefined) session?.input(viewer, Buffer.from(request.lines ? `${data}\r` : data));
      else if (control !== 'unknown') session?.resize(viewer, control);
    },
    drain() {
      if (viewer !== undefined) session?.drained(viewer);
    },
  };
}

/**
 * What a text frame controls: the size of the terminal, or something this version does not know, which is passed over.
 * Undefined for text that is typed: all that is not a JSON object with a `type`.
 */
function readControl(text: string): { cols: number; rows: number } | 'unknown' | undefined {
  if (text.length > MAX_CONTROL_CHARS || !text.startsWith('{')) return undefined;
  const value = controlSchema.safeParse(jsonOf(text));
  if (!value.success) return undefined;
  const { data: size } = resizeSchema.safeParse(value.data);
  return size === undefined ? 'unknown' : { cols: size.cols, rows: size.rows };
}
