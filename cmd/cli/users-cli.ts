/** `troupe users` on the command line; users.ts, users-state.ts and users-remove.ts do the work. */
import type { Command } from 'commander';
import type { Flag } from '../config/option-values.ts';

interface Given {
  readonly data: string;
  readonly json?: true;
}

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
    async (name: string, options: Given) => {
      const { usersAdd } = await import('./users.ts');
      await usersAdd(name, { ...options, json: options.json === true });
    },
  );
  command('list', 'list all users').action(async (options: Given) => {
    const { usersList } = await import('./users.ts');
    await usersList({ ...options, json: options.json === true });
  });
  command('passwd <name>', 'set a password, from standard input or generated').action(
    async (name: string, options: Given) => {
      const { usersPasswd } = await import('./users.ts');
      await usersPasswd(name, { ...options, json: options.json === true });
    },
  );
  command(
    'forget-keys <name>',
    'delete all security keys of somebody who lost them: the password is enough again',
  ).action(async (name: string, options: Given) => {
    const { usersForgetKeys } = await import('./users.ts');
    await usersForgetKeys(name, { ...options, json: options.json === true });
  });
  command('disable <name>', 'let a user in no more: sessions, tokens and all that is open end; containers go on')
    .option('--stop', 'stop their containers, too')
    .action(async (name: string, options: Given & { stop?: true }) => {
      const { usersDisable } = await import('./users-state.ts');
      await usersDisable(name, { ...options, json: options.json === true, stop: options.stop === true });
    });
  command('enable <name>', 'let a disabled user in again').action(async (name: string, options: Given) => {
    const { usersEnable } = await import('./users-state.ts');
    await usersEnable(name, { ...options, json: options.json === true });
  });
  command('remove <name>', 'remove a user with all that is theirs: containers, data, hostnames, keys, tokens')
    .option('--yes', 'do not ask')
    .option('--no-wait', 'do not wait until it is done')
    .action(async (name: string, options: Given & { yes?: true; wait: boolean }) => {
      const { usersRemove } = await import('./users-remove.ts');
      await usersRemove(name, { ...options, json: options.json === true, yes: options.yes === true });
    });
}
