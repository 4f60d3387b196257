/**
 * More file descriptors of one listening socket, so that more connections are accepted in a turn of the event loop
 * (transports/gateway/tcp/listen.ts). Node cannot copy one within a process: a helper is sent the socket, sends it
 * back, and ends.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { CopyListener } from '../../transports/gateway/tcp/listen.ts';

const isSource = import.meta.url.endsWith('.ts');
const HELPER = fileURLToPath(new URL(`./listener-copies-helper.${isSource ? 'ts' : 'js'}`, import.meta.url));
/** How long the helper may take, ms. */
const HELPER_MS = 10_000;

/** Copies what a server listens on; not at all where that cannot be done. */
export const copyListener: CopyListener = async (server, count, signal, onCopy) => {
  const handle: unknown = Reflect.get(server, '_handle');
  if (typeof handle !== 'object' || handle === null || signal.aborted) return;
  let child: ChildProcess;
  try {
    // Nothing of ours is for it, and it prints nothing.
    child = fork(HELPER, {
      execArgv: isSource ? ['--import', 'tsx'] : [],
      env: {},
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
  } catch {
    return;
  }
  await new Promise<void>((resolve) => {
    const end = () => void child.kill('SIGKILL');
    const timer = setTimeout(end, HELPER_MS);
    signal.addEventListener('abort', end, { once: true });
    const over = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    child.on('error', over);
    child.on('close', over);
    child.on('message', (_number, copy) => {
      if (typeof copy === 'object' && copy !== null) onCopy(copy);
    });
    // The handle itself: a server would begin to accept in the helper.
    Reflect.apply(child.send, child, [count, handle, () => {}]);
  });
};
