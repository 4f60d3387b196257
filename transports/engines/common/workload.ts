/** How workloads with settings are run, on each engine. */
import { quotedWord } from '../../../lib/shell-word.ts';
import type { Workload } from '../../../proto/ports/engine.ts';

/** The main process of the platform's own images (deploy/base-image): it runs its arguments beside the SSH server. */
export const INIT = '/usr/local/sbin/troupe-init';

/** Where a container has its environment as a script: what is begun in it later reads it there. */
export const ENVIRONMENT_FILE = '/etc/troupe/env';

/** Run before what people begin in a container, so that it has the environment of the workload. */
export const READ_ENVIRONMENT = `[ ! -r ${ENVIRONMENT_FILE} ] || . ${ENVIRONMENT_FILE} 2>/dev/null; `;

/** A script that sets an environment. Names that a shell keeps to itself are passed over: without `command` it ends. */
export function environmentScript(env: Workload['env']): string {
  return Object.entries(env)
    .map(([name, value]) => `command export ${name}=${quotedWord(value)}\n`)
    .join('');
}

/** What is run, by Docker's rules: an entrypoint that is given drops the command of the image. */
export function wordsOf(
  image: { readonly entrypoint: readonly string[]; readonly command: readonly string[] },
  { entrypoint, command }: Pick<Workload, 'entrypoint' | 'command'>,
): readonly string[] {
  return [...(entrypoint ?? image.entrypoint), ...(command ?? (entrypoint === undefined ? image.command : []))];
}
