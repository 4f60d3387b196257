/** Opens shells in containers (Shells of proto/ports.ts): a login to the container's SSH server, a PTY and a shell. */
import { EngineError, type Shell, type Shells } from '../../proto/ports.ts';
import { type ContainerLoginOptions, logInto } from './container-login.ts';
import { cells, shellOver } from './shell-stream.ts';

/** What `sshShells` needs. */
export type SshShellsOptions = ContainerLoginOptions;

const TERM = /^[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}$/;

/**
 * Shells over SSH. `open` rejects with EngineError only: as `logInto` does, and with `refused` when no PTY shell was granted. Nothing stays
 * open after a rejection.
 */
export function sshShells(options: SshShellsOptions): Shells {
  return {
    open: (containerId, size, signal) =>
      logInto<Shell>(options, containerId, signal, {}, (client, socket, succeed, fail) => {
        client.shell(window(size), (cause, channel) => {
          if (cause) fail(new EngineError('refused', 'The container does not grant a terminal.', { cause }));
          else succeed(() => shellOver(client, socket, channel));
        });
      }),
  };
}

function window(size: { readonly cols: number; readonly rows: number; readonly term: string }) {
  const term = TERM.test(size.term) ? size.term : 'xterm-256color';
  return { term, cols: cells(size.cols), rows: cells(size.rows), width: 0, height: 0 };
}
