/** The commands of the operator, on the platform's machine. */
import type { Command } from 'commander';
import { addAloneCommands } from './alone-commands.ts';
import { addInspectionCommands } from './inspection-commands.ts';
import { addPeopleCommands } from './people-commands.ts';
import { addPlatformCommands } from './platform-commands.ts';

/** Adds them. Help shows the groups, and the commands of each, in this order. */
export function addOperatorCommands(program: Command): void {
  addPlatformCommands(program.commandsGroup('The platform, on its machine:'));
  addAloneCommands(
    program.commandsGroup('One service alone, on a machine of the platform (docs/reference/operations.md):'),
  );
  addInspectionCommands(program.commandsGroup('Looking in, on a machine of the platform:'));
  addPeopleCommands(program.commandsGroup('People and what is theirs, on a machine of the platform:'));
}
