/** How a terminal gets its shell: through SSH, and where an image has none, through the engine. */
import { type Engine, EngineError } from '../../../proto/ports/engine.ts';
import type { Log } from '../../../proto/ports/log.ts';
import type { Shells } from '../../../proto/ports/shell.ts';

/**
 * Shells through `ssh`; when no SSH server answers, or it does not let the platform in, through the engine itself.
 * Rejects with what SSH said when the engine has no shell either, its reason behind it.
 */
export function sshElseEngine(ssh: Shells, engine: Pick<Engine, 'exec'>, log: Log): Shells {
  return {
    async open(containerId, size, signal, keeping) {
      try {
        return await ssh.open(containerId, size, signal, keeping);
      } catch (error) {
        const hasNoWayIn = error instanceof EngineError && (error.code === 'no_listener' || error.code === 'refused');
        if (!hasNoWayIn || signal.aborted) throw error;
        log.debug({ containerId, reason: error.message }, 'no shell through SSH: asking the engine for one');
        return engine.exec(containerId, size, signal).catch((cause: unknown) => {
          if (!(cause instanceof EngineError) || cause.code !== 'refused') throw cause;
          throw new EngineError('refused', `${error.message} ${cause.message}`, { cause });
        });
      }
    },
  };
}
