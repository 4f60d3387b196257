/** The commands of people at a terminal, wherever the platform is. */
import type { Command } from 'commander';
import { addAccountCommands, addLoginCommands } from './account-commands.ts';
import { addContainerCommands } from './container-commands.ts';

/** Adds them, in the order of the help. */
export function addClientCommands(program: Command): void {
  addContainerCommands(program.commandsGroup('Your containers:'));
  addAccountCommands(program.commandsGroup('What is yours:'));
  addLoginCommands(program.commandsGroup('Your login:'));
  program
    .command('version')
    .description('print the version of this program')
    .action(() => void process.stdout.write(`${program.version()}\n`));
  program
    .command('__complete [words...]', { hidden: true })
    .action(async (words: string[]) => (await import('./completion.ts')).complete(program, words));
}
