/** `troupe domains` on the command line; domains.ts does the work. */
import type { Command } from 'commander';
import type { Flag } from '../config/option-values.ts';
import type { CommandOptions } from './command.ts';
import { integer } from './integer.ts';

/** Adds the commands; `data` and `json` are the options that most commands have. */
export function addDomains(program: Command, { data, json }: { data: Flag; json: Flag }): void {
  const domains = program
    .command('domains')
    .description('hostnames that users have mapped (works while the platform runs)');
  domains
    .command('list')
    .description('list all with their owners, states and certificates, and what each waits for')
    .option('--limit <n>', 'at most so many', integer, 1000)
    .option(...data)
    .option(...json)
    .action(async (options: CommandOptions & { limit: number }) => (await import('./domains.ts')).domainsList(options));
}
