/** The command line of Troupe. */
import { Command } from 'commander';
import { addAloneCommands } from './cli/alone-commands.ts';
import { addInspectionCommands } from './cli/inspection-commands.ts';
import { addPeopleCommands } from './cli/people-commands.ts';
import { addPlatformCommands } from './cli/platform-commands.ts';
import { wordsFor } from './config/cli-error.ts';
import { version } from './config/program.ts';

const program = new Command('troupe')
  .description('A self-hosted container cloud: log in, run containers, open terminals in them.')
  .version(version)
  .showHelpAfterError('(troupe --help shows what there is)')
  .addHelpText('after', '\nConfiguration by environment variables is described in docs/reference/configuration.md.');

program.option('--data <dir>', 'folder of the platform, before the command or after it (default: TROUPE_DATA)');
// An option that the program has too is read by the program, wherever it stands.
program.hook('preAction', (_program, action) => {
  const given = program.opts<{ data?: string }>().data;
  if (given === undefined) return;
  for (let command: Command | null = action; command !== null && command !== program; command = command.parent)
    command.setOptionValue('data', given);
});

// Help shows the groups, and the commands of each, in this order.
addPlatformCommands(program.commandsGroup('The platform:'));
addAloneCommands(program.commandsGroup('One service alone (docs/reference/operations.md):'));
addInspectionCommands(program.commandsGroup('Looking in:'));
addPeopleCommands(program.commandsGroup('People and what is theirs:'));
program.configureHelp({ visibleCommands: (command) => [...command.commands] });

/** `-http-port` is `--http-port`: flags of one dash are promised, too. What follows `--` is another program's. */
function twoDashes(argument: string, at: number, all: readonly string[]): string {
  return /^-[a-z][a-z-]+(=|$)/.test(argument) && !all.slice(0, at).includes('--') ? `-${argument}` : argument;
}

try {
  await program.parseAsync([...process.argv.slice(0, 2), ...process.argv.slice(2).map(twoDashes)]);
} catch (error) {
  process.stderr.write(`troupe: ${wordsFor(error)}\n`);
  process.exitCode = 1;
}
