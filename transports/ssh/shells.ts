/** Opens shells in containers (Shells of proto/ports/shell.ts): an SSH login, a PTY and a shell. */
import { setTimeout as delay } from 'node:timers/promises';
import { EngineError } from '../../proto/ports/engine.ts';
import { cells, type Shell, type Shells, terminalType } from '../../proto/ports/shell.ts';
import { type ContainerLoginOptions, LoginLost, logInto, type Proceed } from './container-login.ts';
import { openBridge, persistentShellOver } from './persistent-shell.ts';
import { shellOver } from './shell-stream.ts';

/** What `sshShells` needs. */
export interface SshShellsOptions extends ContainerLoginOptions {
  /** Folder in the containers for the sockets of shells that are kept. Default /run/troupe. */
  readonly keepingFolder?: string;
}

const NAME = /^[A-Za-z0-9]{1,64}$/;
const KEEPING_FOLDER = '/run/troupe';
/** Waits before further logins when one was lost, ms. */
const AGAIN_MS = [100, 400];

/**
 * Shells over SSH. A login that is lost is tried again, three times in all. `open` rejects with EngineError only: as
 * `logInto` does, and with `refused` when no PTY shell was granted. Nothing stays open after a rejection, but a shell
 * that is kept may have begun: it waits, and ends as one that nobody looks at.
 */
export function sshShells(options: SshShellsOptions): Shells {
  const { log, keepingFolder: folder = KEEPING_FOLDER } = options;
  return {
    open: (containerId, size, signal, keeping) => {
      const login = (proceed: Proceed<Shell>) => logInto<Shell>(options, containerId, signal, {}, proceed);
      return again(signal, login, (client, socket, succeed, fail) => {
        const asked = window(size);
        const refused = (cause: unknown) =>
          fail(new EngineError('refused', 'The container does not grant a terminal.', { cause }));
        const plain = () =>
          client.shell(asked, (cause, channel) => {
            if (cause) refused(cause);
            else succeed(() => shellOver(client, socket, channel));
          });
        if (keeping === undefined || !NAME.test(keeping.name)) {
          plain();
          return;
        }
        openBridge(client, { ...asked, folder, name: keeping.name }).then(
          (channel) => succeed(() => persistentShellOver(client, socket, channel, keeping)),
          (error: unknown) => {
            log.debug({ containerId, err: error }, 'the container cannot keep a shell');
            try {
              plain();
            } catch (cause) {
              refused(cause); // The connection was lost meanwhile, which is known already.
            }
          },
        );
      });
    },
  };
}

/** Logs in, and again when that was lost. */
async function again(
  signal: AbortSignal,
  login: (proceed: Proceed<Shell>) => Promise<Shell>,
  proceed: Proceed<Shell>,
): Promise<Shell> {
  for (const wait of AGAIN_MS) {
    try {
      return await login(proceed);
    } catch (error) {
      if (!(error instanceof LoginLost) || signal.aborted) throw error;
    }
    // An end of the wait is for the next login to tell of.
    await delay(wait, undefined, { signal }).catch(() => undefined);
  }
  return login(proceed);
}

function window(size: { readonly cols: number; readonly rows: number; readonly term: string }) {
  return { term: terminalType(size.term), cols: cells(size.cols), rows: cells(size.rows), width: 0, height: 0 };
}
