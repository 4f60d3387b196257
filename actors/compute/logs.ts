/** A container's log: one line a message, at the pace of the reader. */
import type { Socket } from '../../proto/http.ts';
import { EngineError } from '../../proto/ports.ts';
import { dispatch, type Ref } from '../../supervision/index.ts';
import type { ComputeDeps } from './deps.ts';
import type { Connection, StreamMessage } from './streams.ts';

/** The log of one container, beginning with the newest `tail` lines. */
export function logConnection(deps: ComputeDeps, containerId: string, tail: number): Connection {
  let drained: (() => void) | undefined;

  async function follow(socket: Socket, signal: AbortSignal): Promise<{ code: number; reason: string }> {
    // Once for the whole stream: a reader who stalls often must not leave a listener each time.
    signal.addEventListener('abort', () => drained?.(), { once: true });
    for await (const lines of deps.engine.logs(containerId, { tail, follow: true, signal })) {
      for (const line of lines) {
        if (socket.send(line)) continue;
        // The engine keeps the rest until the reader is ready for it.
        await new Promise<void>((resolve) => {
          drained = resolve;
          if (signal.aborted) resolve();
        });
        if (signal.aborted) return { code: 1000, reason: 'closed' };
      }
    }
    return { code: 1000, reason: 'container stopped' };
  }

  return {
    open(socket: Socket, self: Ref<StreamMessage>, signal: AbortSignal) {
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
