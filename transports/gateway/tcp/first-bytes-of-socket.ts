/**
 * Waits for the first bytes of a socket (SSH, ports that speak anything, the PROXY header), until somebody can decide
 * by them, and no longer than a deadline.
 */
import type { Socket } from 'node:net';

/** Most bytes collected for a decision. */
const MAX_FIRST = 17_000;

/**
 * Collects bytes until `decide` says something other than undefined, then hands over the paused socket with all that
 * was read. `onTimeout` gets it when nobody decided within `ms`, or the peer ended or sent too much. The socket's end
 * before that is nobody's news.
 */
export function readFirstOfSocket<T>(
  socket: Socket,
  ms: number,
  decide: (bytes: Buffer) => T | undefined,
  onDecided: (decision: T, bytes: Buffer) => void,
  onTimeout: (bytes: Buffer) => void,
): void {
  let bytes: Buffer = Buffer.alloc(0);
  const timer = setTimeout(() => {
    done();
    onTimeout(bytes);
  }, ms);
  const onData = (chunk: Buffer) => {
    bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk]);
    const decision = decide(bytes);
    if (decision !== undefined) {
      done();
      onDecided(decision, bytes);
    } else if (bytes.length > MAX_FIRST) onEnd();
  };
  const onEnd = () => {
    done();
    onTimeout(bytes);
  };
  const done = () => {
    clearTimeout(timer);
    socket.off('data', onData).off('end', onEnd).off('close', done);
    socket.pause();
  };
  socket.on('data', onData).on('end', onEnd).on('close', done);
  // Whoever read of it before left it paused.
  socket.resume();
}
