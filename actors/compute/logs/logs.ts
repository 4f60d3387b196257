/** A container's log: one line a message, at the pace of the reader. What its end means: docs/reference/streams.md. */
import { containerSchema } from '../../../proto/compute/fields.ts';
import { DEFAULT_LOG_TAIL } from '../../../proto/compute/logs.ts';
import { Refusal } from '../../../proto/errors.ts';
import { EngineError } from '../../../proto/ports/engine.ts';
import type { Socket } from '../../../proto/ports/http.ts';
import { dispatch, type Ref } from '../../../supervision/index.ts';
import type { Connection, ConnectionEnd, ConnectionMessage } from '../../service/connection.ts';
import { closeReason } from '../container/attached-terminals.ts';
import type { ComputeDeps } from '../deps.ts';
import type { LogSharing } from './sharing.ts';

/** What a reader asked for. */
interface LogRequest {
  readonly tail?: number | undefined;
  /** Stamp of the last line that the reader has. */
  readonly since?: string | undefined;
}

/**
 * The log of one container: the newest `tail` lines (all, with `since`), then what comes. `whatEnded` says what became
 * of the container once the engine has no more of its log; it may reject.
 */
export function logConnection(
  deps: Pick<ComputeDeps, 'log'>,
  sharing: LogSharing,
  containerId: string,
  request: LogRequest,
  whatEnded: () => Promise<ConnectionEnd>,
): Connection {
  let drained: (() => void) | undefined;

  async function follow(socket: Socket, signal: AbortSignal): Promise<ConnectionEnd> {
    // Once for the whole stream: a reader who stalls often must not leave a listener each time.
    signal.addEventListener('abort', () => drained?.(), { once: true });
    const { since } = request;
    const tail = request.tail ?? (since === undefined ? DEFAULT_LOG_TAIL : Number.POSITIVE_INFINITY);
    for await (const lines of sharing.read(containerId, { tail, since }, signal)) {
      for (let at = 0; at < lines.length; ) {
        const ready = socket.batch(() => {
          at = sendFrom(socket, lines, at);
        });
        if (ready) continue;
        // The engine keeps the rest until the reader is ready for it.
        await new Promise<void>((resolve) => {
          drained = resolve;
          if (signal.aborted) resolve();
        });
        if (signal.aborted) return { code: 1000, reason: 'closed' };
      }
    }
    return whatEnded();
  }

  return {
    open(socket: Socket, self: Ref<ConnectionMessage>, { signal }) {
      void follow(socket, signal)
        .catch((error: unknown) => {
          if (!signal.aborted) deps.log.warn({ containerId, err: error }, 'log stream failed');
          return error instanceof EngineError && error.code === 'unavailable'
            ? { code: 1013, reason: 'engine not available, try again' }
            : { code: 1011, reason: 'the log could not be read' };
        })
        .then(({ code, reason }) => {
          if (!signal.aborted) dispatch(self, { type: 'close', code, reason });
        });
    },
    drain() {
      drained?.();
    },
  };
}

/** Why the engine has no more of a log, by what is known of the container then. */
export async function endOfLog(view: Promise<unknown>): Promise<ConnectionEnd> {
  try {
    const { status } = containerSchema.pick({ status: true }).parse(await view);
    return closeReason(status);
  } catch (error) {
    if (error instanceof Refusal && error.code === 'not_found') return { code: 1000, reason: 'container deleted' };
    return { code: 1013, reason: 'not available, try again' };
  }
}

/** Sends lines until the socket asks for a pause. Returns where to go on. */
function sendFrom(socket: Socket, lines: readonly string[], from: number): number {
  for (let at = from; at < lines.length; at++) if (!socket.send(lines[at] ?? '')) return at + 1;
  return lines.length;
}
