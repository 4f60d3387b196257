/** The commands for variables and secrets of containers. */
import type { Command } from 'commander';
import { clientCommand, listCommand } from './common.ts';
import type { EnvFileOptions } from './env.ts';
import type { ClientCommandOptions } from './session.ts';

export function addEnvCommands(program: Command): void {
  const work = () => import('./env.ts');
  const env = program
    .command('env')
    .description('variables and secrets of a container; a change restarts one that runs');
  listCommand(env, 'ls [container]', 'list them; secrets by name').action(
    async (name: string | undefined, options: ClientCommandOptions) => (await work()).listEnv(name, options),
  );
  clientCommand(env, 'set <container> [name=value...]', 'set variables')
    .option('-f, --file <file>', 'those of a file such as .env (-: standard input)')
    .action(async (name: string, pairs: string[], options: EnvFileOptions) =>
      (await work()).setEnv(name, pairs, options),
    );
  clientCommand(env, 'secret <container> [name]', 'set a secret, which is typed, or read of standard input')
    .option('-f, --file <file>', 'all of a file such as .env (-: standard input)')
    .action(async (name: string, variable: string | undefined, options: EnvFileOptions) =>
      (await work()).setSecret(name, variable, options),
    );
  clientCommand(env, 'rm <container> <names...>', 'remove variables and secrets').action(
    async (name: string, variables: string[], options: ClientCommandOptions) =>
      (await work()).removeEnv(name, variables, options),
  );
}
