/** `troupe secrets`: JWT_SECRET of the data folder gives way to another, without anybody being logged out. */
import type { Command } from 'commander';
import type { Flag } from '../config/option-values.ts';
import type { CommandOptions } from './command.ts';

type SecretStep = 'prepareRotation' | 'rotate' | 'finishRotation';

/** Adds the commands; `data` and `json` are the options that most commands have. */
export function addSecrets(program: Command, { data, json }: { data: Flag; json: Flag }): void {
  const secrets = program
    .command('secrets')
    .description(
      'rotate the secret that signs tokens, where it is kept in the data folder (docs/reference/operations.md)',
    );
  const add = (name: string, step: SecretStep, description: string, then: string) =>
    secrets
      .command(name)
      .description(description)
      .option(...data)
      .option(...json)
      .action(async (options: CommandOptions) => {
        const { dataDirInUse } = await import('../config/data-dir.ts');
        const steps = await import('../config/shared-secrets.ts');
        const dir = dataDirInUse(options.data);
        steps[step](dir);
        process.stdout.write(options.json === true ? `${JSON.stringify({ done: name, next: then })}\n` : `${then}\n`);
      });
  add(
    'prepare',
    'prepareRotation',
    'make the next secret, accepted from the next start on; needed where several processes use the folder',
    'Restart the processes that use this folder, one after the other, then run `troupe secrets rotate`.',
  );
  add(
    'rotate',
    'rotate',
    'make the next secret the one that signs; what the present one signed goes on being accepted',
    'Restart the processes that use this folder. Once nothing is left that the former secret signed, run `troupe ' +
      'secrets finish`.',
  );
  add(
    'finish',
    'finishRotation',
    'void everything that the previous secret signed, API tokens included',
    'Restart the processes that use this folder: what the previous secret signed is void from then on.',
  );
}
