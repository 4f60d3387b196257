/** What tidies up when a test's process is killed, and so cannot. */
import { spawn } from 'node:child_process';
import { Socket } from 'node:net';

/**
 * Starts a child that waits for the end of its input, which the kernel closes when this process dies, and runs `script` (of /bin/sh)
 * then, with `args` as $1 and so on. Holds nothing open here. Returns what ends it without running the script.
 */
export function guard(script: readonly string[], ...args: string[]): () => void {
  const child = spawn('/bin/sh', ['-c', ['cat >/dev/null', ...script].join('\n'), 'guard', ...args], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  child.unref();
  if (child.stdin instanceof Socket) child.stdin.unref();
  return () => {
    child.removeAllListeners();
    child.kill('SIGKILL');
  };
}
