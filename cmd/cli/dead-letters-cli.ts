/** `troupe dead-letters` on the command line; dead-letters.ts does the work. */
import type { Command } from 'commander';
import type { Flag } from '../config/option-values.ts';
import type { CommandOptions } from './command.ts';
import type { ChoiceOptions, ListOptions } from './dead-letters.ts';
import { integer } from './integer.ts';

/** Adds the commands; `data` and `json` are the options that most commands have. */
export function addDeadLetters(program: Command, { data, json }: { data: Flag; json: Flag }): void {
  const deadLetters = program
    .command('dead-letters')
    .description('messages that a service gave up after too many attempts (works while the platform runs)');
  const ofStream = ['--stream <name>', 'only those of this stream, such as NOTIFICATIONS'] as const;
  deadLetters
    .command('list')
    .description('list the newest')
    .option(...ofStream)
    .option('--limit <n>', 'at most so many', integer, 50)
    .option(...data)
    .option(...json)
    .action(async (options: ListOptions) => (await import('./dead-letters.ts')).deadLettersList(options));
  deadLetters
    .command('show <id>')
    .description('show one with its content')
    .option(...data)
    .option(...json)
    .action(async (id: string, options: CommandOptions) =>
      (await import('./dead-letters.ts')).deadLettersShow(id, options),
    );
  deadLetters
    .command('replay [ids...]')
    .description('send them to their streams again; those replayed before are left alone')
    .option(...ofStream)
    .option('--all', 'all there are')
    .option('--again', 'also those replayed before')
    .option(...data)
    .option(...json)
    .action(async (ids: string[], options: ChoiceOptions) =>
      (await import('./dead-letters.ts')).deadLettersReplay(ids, options),
    );
  deadLetters
    .command('discard [ids...]')
    .description('delete them for good')
    .option(...ofStream)
    .option('--all', 'all there are')
    .option(...data)
    .option(...json)
    .action(async (ids: string[], options: ChoiceOptions) =>
      (await import('./dead-letters.ts')).deadLettersDiscard(ids, options),
    );
}
