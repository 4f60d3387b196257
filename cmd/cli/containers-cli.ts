/** `troupe containers` on the command line; containers.ts does the work. */
import type { Command } from 'commander';
import type { Flag } from '../config/option-values.ts';
import type { CommandOptions } from './command.ts';

/** Adds the commands; `data` and `json` are the options that most commands have. */
export function addContainers(program: Command, { data, json }: { data: Flag; json: Flag }): void {
  const containers = program
    .command('containers')
    .description('the containers of all users (works while the platform runs)');
  containers
    .command('list')
    .description('list all with their owners and statuses, and what each waits for or why it failed')
    .option('--status <status>', 'only those: pending, initializing, running, stopped or failed')
    .option(...data)
    .option(...json)
    .action(async (options: CommandOptions & { status?: string }) =>
      (await import('./containers.ts')).containersList(options),
    );
}
