/** Fewer system calls: ssh2 writes each packet by itself, and an answer is often three of them. */
import type { Duplex } from 'node:stream';

/** What is written to `others` because of bytes from `socket` leaves together, at the end of the loop's turn. */
export function writeTogether(socket: Duplex, others: readonly Duplex[]): void {
  let isHeld = false;
  const release = () => {
    isHeld = false;
    for (const other of others) other.uncork();
  };
  const hold = () => {
    if (isHeld) return;
    isHeld = true;
    for (const other of others) other.cork();
    setImmediate(release);
  };
  // Before ssh2 looks at the bytes.
  socket.prependListener('data', hold);
}
