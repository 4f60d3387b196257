/** `troupe rekey` on the command line; rekey.ts does the work. */
import type { Command } from 'commander';
import type { Flag } from '../config/option-values.ts';
import type { CommandOptions } from './command.ts';

/** Adds the command; `data` and `json` are the options that most commands have. */
export function addRekey(program: Command, { data, json }: { data: Flag; json: Flag }): void {
  program
    .command('rekey')
    .description(
      'seal all secrets under another encryption key, generated or NEW_ENCRYPTION_KEY (the platform must not run)',
    )
    .option(...data)
    .option(...json)
    .action(async (options: CommandOptions) => (await import('./rekey.ts')).rekey(options));
}
