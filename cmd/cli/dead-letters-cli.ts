/** `troupe dead-letters` on the command line; dead-letters.ts does the work. */
import type { Command } from 'commander';
import type { Flag } from '../config/option-values.ts';
import { integer } from './integer.ts';

interface Chosen {
  data: string;
  json?: true;
  all?: true;
  stream?: string;
  again?: true;
}

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
    .action(async (options: { data: string; json?: true; stream?: string; limit: number }) => {
      const { deadLettersList } = await import('./dead-letters.ts');
      await deadLettersList({ ...options, stream: options.stream, json: options.json === true });
    });
  deadLetters
    .command('show <id>')
    .description('show one with its content')
    .option(...data)
    .option(...json)
    .action(async (id: string, options: { data: string; json?: true }) => {
      const { deadLettersShow } = await import('./dead-letters.ts');
      await deadLettersShow(id, { ...options, json: options.json === true });
    });
  deadLetters
    .command('replay [ids...]')
    .description('send them to their streams again; those replayed before are left alone')
    .option(...ofStream)
    .option('--all', 'all there are')
    .option('--again', 'also those replayed before')
    .option(...data)
    .option(...json)
    .action(async (ids: string[], { stream, ...options }: Chosen) => {
      const { deadLettersReplay } = await import('./dead-letters.ts');
      const [all, again, json] = [options.all === true, options.again === true, options.json === true];
      await deadLettersReplay(ids, { ...options, stream, all, again, json });
    });
  deadLetters
    .command('discard [ids...]')
    .description('delete them for good')
    .option(...ofStream)
    .option('--all', 'all there are')
    .option(...data)
    .option(...json)
    .action(async (ids: string[], { stream, ...options }: Chosen) => {
      const { deadLettersDiscard } = await import('./dead-letters.ts');
      await deadLettersDiscard(ids, { ...options, stream, all: options.all === true, json: options.json === true });
    });
}
