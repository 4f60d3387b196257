/** How a pod runs its workload. */
import type { Workload } from '../../../proto/ports/engine.ts';
import { INIT } from '../common/workload.ts';
import { names } from './naming.ts';

/**
 * Run in an image of the platform, whose own command it takes the place of: a command beside the SSH server. What an
 * image says it runs is known to the nodes alone, and a default image may be one that runs no command, or drops it.
 */
const BESIDE_SCRIPT = `init=${INIT}
if [ -x "$init" ] && grep -q '^given=' "$init"; then exec "$init" "$@"; fi
echo "troupe: the image of the platform runs no command beside its SSH server. The operator builds it anew." >&2
exit 127`;

/**
 * A workload in the words of Kubernetes, which puts variables in the place of `$(NAME)` unless `$` is doubled. `isOwn`:
 * its image is one of the platform's, which runs a command beside its SSH server. `variables`: the secret with them.
 */
export function runOf(
  { entrypoint, command, workingDir }: Workload,
  isOwn: boolean,
  variables: string = names.environment,
): object {
  const plain = (words: readonly string[]): string[] => words.map((word) => word.replaceAll('$', '$$$$'));
  const isBeside = isOwn && entrypoint === undefined && command !== undefined;
  const first = isBeside ? ['/bin/sh', '-c', BESIDE_SCRIPT, 'troupe'] : entrypoint;
  return {
    envFrom: [{ secretRef: { name: variables } }],
    ...(first === undefined ? {} : { command: plain(first) }),
    ...(command === undefined ? {} : { args: plain(command) }),
    ...(workingDir === undefined ? {} : { workingDir }),
  };
}
