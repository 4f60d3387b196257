/** The commands of people at a terminal, wherever the platform is. */
import type { Command } from 'commander';
import { addAccountCommands } from './account-commands.ts';
import { addContainerCommands } from './container-commands.ts';
import { addReleases } from './deploy-commands.ts';
import { addDeploy, addLoginCommands, addOwnImages, addOwnSsh } from './own-commands.ts';
import type { CommandPlace } from './place.ts';

/** Adds them, in the order of the help. `place`: resolves with where they run. */
export function addClientCommands(program: Command, place: () => Promise<CommandPlace>): void {
  addContainerCommands(program.commandsGroup('Your containers:'), addOwnSsh);
  addOwnImages(program);
  const apps = program.commandsGroup('Your apps:');
  addDeploy(apps);
  addReleases(apps);
  addAccountCommands(program.commandsGroup('What is yours:'));
  addLoginCommands(program.commandsGroup('Your login:'));
  const own = new Set(program.commands);
  program.hook('preAction', async (_program, action) => {
    let top = action;
    while (top.parent !== null && top.parent !== program) top = top.parent;
    if (own.has(top)) action.setOptionValue('place', await place());
  });
  program
    .command('version')
    .description('print the version of this program')
    .action(() => void process.stdout.write(`${program.version()}\n`));
  program
    .command('__complete [words...]', { hidden: true })
    .action(async (words: string[]) => (await import('./completion.ts')).complete(program, words));
}
