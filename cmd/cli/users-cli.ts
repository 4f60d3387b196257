/** `troupe users` on the command line; users.ts, users-state.ts and users-remove.ts do the work. */
import type { Command } from 'commander';
import type { Flag } from '../config/option-values.ts';
import type { CommandOptions } from './command.ts';
import type { DisableOptions, RemoveOptions } from './users.ts';

/** Adds the commands; `data` and `json` are the options that most commands have. */
export function addUsers(program: Command, { data, json }: { data: Flag; json: Flag }): void {
  const users = program
    .command('users')
    .description('add users, list them, set passwords, disable and remove them (works while the platform runs)');
  const command = (usage: string, description: string) =>
    users
      .command(usage)
      .description(description)
      .option(...data)
      .option(...json);

  command('add <name>', 'add a user; the password comes from standard input, or is generated and printed').action(
    async (name: string, options: CommandOptions) => (await import('./users.ts')).usersAdd(name, options),
  );
  command('list', 'list all users').action(async (options: CommandOptions) =>
    (await import('./users.ts')).usersList(options),
  );
  command('passwd <name>', 'set a password, from standard input or generated').action(
    async (name: string, options: CommandOptions) => (await import('./users.ts')).usersPasswd(name, options),
  );
  command(
    'forget-keys <name>',
    'delete all security keys of somebody who lost them: the password is enough again',
  ).action(async (name: string, options: CommandOptions) =>
    (await import('./users.ts')).usersForgetKeys(name, options),
  );
  command('disable <name>', 'let a user in no more: sessions, tokens and all that is open end; containers go on')
    .option('--stop', 'stop their containers, too')
    .action(async (name: string, options: DisableOptions) => (await import('./users.ts')).usersDisable(name, options));
  command('enable <name>', 'let a disabled user in again').action(async (name: string, options: CommandOptions) =>
    (await import('./users.ts')).usersEnable(name, options),
  );
  command('remove <name>', 'remove a user with all that is theirs: containers, data, hostnames, keys, tokens')
    .option('--yes', 'do not ask')
    .option('--no-wait', 'do not wait until it is done')
    .action(async (name: string, options: RemoveOptions) => (await import('./users.ts')).usersRemove(name, options));
}
