/** `troupe rekey` on the command line; rekey.ts does the work. */
import type { Command } from 'commander';

/** An option as commander takes it: flags, description, default. */
type Flag = readonly [string, string, string?];

/** Adds the command; `data` and `json` are the options that most commands have. */
export function addRekey(program: Command, { data, json }: { data: Flag; json: Flag }): void {
  program
    .command('rekey')
    .description(
      'seal all secrets under another encryption key, generated or NEW_ENCRYPTION_KEY (the platform must not run)',
    )
    .option(...data)
    .option(...json)
    .action(async (options: { data: string; json?: true }) => {
      const { rekey } = await import('./rekey.ts');
      await rekey({ ...options, json: options.json === true });
    });
}
