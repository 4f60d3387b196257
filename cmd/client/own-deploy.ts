/** The command that brings a folder of a person's machine into a container. */
import type { Command } from 'commander';
import { clientCommand, count, gigabytes, megabytes } from './common.ts';
import type { DeployOptions } from './deploy/deploy.ts';

const WAIT_SECONDS = 300;

/** Adds it. */
export function addDeploy(program: Command): void {
  clientCommand(program, 'deploy [folder]', 'bring a folder into a container, build it there, and run it')
    .option('--name <name>', 'the container, which is made if it is not there (default: the name of the folder)')
    .option('--start <command>', 'starts the app, which listens on $PORT (default: as package.json or Procfile says)')
    .option('--build <command>', 'runs before, such as "npm ci" (default: as the files say; "": nothing)')
    .option('--release <command>', 'runs once before the switch, such as "npm run migrate" (default: as Procfile says)')
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
