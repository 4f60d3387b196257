/** The commands that bring an app of one's own into a container. */
import type { Command } from 'commander';
import { clientCommand, count, gigabytes, listCommand, megabytes } from './common.ts';
import type { DeployOptions } from './deploy/deploy.ts';
import type { ClientCommandOptions } from './session.ts';

const WAIT_SECONDS = 300;

/** Adds those that need the files of a person's machine. */
export function addDeploy(program: Command): void {
  clientCommand(program, 'deploy [folder]', 'bring a folder into a container, build it there, and run it')
    .option('--name <name>', 'the container, which is made if it is not there (default: the name of the folder)')
    .option('--start <command>', 'starts the app, which listens on $PORT (default: as package.json or Procfile says)')
    .option('--build <command>', 'runs before, such as "npm ci" (default: as the files say; "": nothing)')
    .option('--port <port>', 'where the app listens (default: PORT of the container, else 8080)', count)
    .option('--health <check>', 'a path that answers when it is well, tcp or none (default: /)')
    .option('--grace <seconds>', 'how long it may take to be well (default: 30)', count)
    .option('--image <image>', 'what a new container is made from (default: as the files say)')
    .option('--size <size>', 'nano, micro, mini, tiny, small or medium, of a new container')
    .option('--memory <size>', 'such as 512M or 2G, of a new container', megabytes)
    .option('--storage <size>', 'such as 5G, of a new container', gigabytes)
    .option('--note <text>', 'what `troupe releases` says of it')
    .option('--with-secrets', 'take along .env files and private keys')
    .option('--timeout <seconds>', 'how long to wait for the container', count, WAIT_SECONDS)
    .action(async (folder: string | undefined, options: DeployOptions) =>
      (await import('./deploy/deploy.ts')).deploy(folder, options),
    );
}

/** Adds those for what was deployed. */
export function addReleases(program: Command): void {
  listCommand(program, 'releases [container]', 'list what was deployed to a container').action(
    async (name: string | undefined, options: ClientCommandOptions) =>
      (await import('./deploy/releases.ts')).listReleases(name, options),
  );
  clientCommand(
    program,
    'rollback [container] [release]',
    'go back to the release before, or to one of the list',
  ).action(async (name: string | undefined, release: string | undefined, options: ClientCommandOptions) =>
    (await import('./deploy/releases.ts')).rollBack(name, release, options),
  );
}
