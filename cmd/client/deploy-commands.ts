/** The commands for apps that were brought into a container, and what git asks for. */
import type { Command } from 'commander';
import { actionsOf } from '../config/actions.ts';
import { clientCommand, listCommand } from './common.ts';
import type { ClientCommandOptions } from './session.ts';

const inReleases = actionsOf(() => import('./deploy/releases.ts'));

/** Adds those for what was deployed. */
export function addReleases(program: Command): void {
  listCommand(program, 'releases [container]', 'list what was deployed to a container').action(
    inReleases((of) => of.listReleases),
  );
  clientCommand(
    program,
    'rollback [container] [release]',
    'go back to the release before, or to one of the list',
  ).action(inReleases((of) => of.rollBack));
}

/** Adds what git asks for by SSH: `git push ssh://HOST/NAME`, and `git fetch`. */
export function addGit(program: Command): void {
  const add = (name: string, work: (repository: string, options: ClientCommandOptions) => Promise<void>) =>
    program.command(`${name} <repository>`, { hidden: true }).action(work);
  add('git-receive-pack', async (repository, options) =>
    (await import('./deploy/push.ts')).receivePush(repository, options),
  );
  add('git-upload-pack', async (repository, options) =>
    (await import('./deploy/push.ts')).sendPushed(repository, options),
  );
}
