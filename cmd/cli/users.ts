/** `troupe users add|list|passwd|forget-keys`: users are made here, there is no sign-up. */
import { readFileSync } from 'node:fs';
import { addUser, forgetKeys, generatePassword, listUsers, setPassword } from '../../actors/auth/users/users.ts';
import { type CommandOptions, onDatabase, print } from './command.ts';
import { tableLines } from './table.ts';

/** Adds a user with the password from standard input, or a generated one, which is printed. */
export async function usersAdd(username: string, options: CommandOptions): Promise<void> {
  const given = passwordFromInput();
  const password = given ?? generatePassword();
  const user = await onDatabase(options, (db) => addUser(db, username, password));
  print(options, { ...user, password: given === undefined ? password : null }, () =>
    given === undefined ? `Added ${username}. The password is ${password} (shown only now).` : `Added ${username}.`,
  );
}

/** Sets a user's password, from standard input or generated. */
export async function usersPasswd(username: string, options: CommandOptions): Promise<void> {
  const given = passwordFromInput();
  const password = given ?? generatePassword();
  const sessions = await onDatabase(options, (db) => setPassword(db, username, password));
  print(options, { username, password: given === undefined ? password : null, sessions_ended: sessions }, () => {
    const changed =
      given === undefined
        ? `${username} now has the password ${password} (shown only now).`
        : `The password of ${username} is changed.`;
    return `${changed} All sessions are ended${sessions === 0 ? '' : ` (${sessions})`}; API tokens go on.`;
  });
}

/** Deletes all security keys of a user. */
export async function usersForgetKeys(username: string, options: CommandOptions): Promise<void> {
  const keys = await onDatabase(options, (db) => forgetKeys(db, username));
  print(options, { username, keys }, () =>
    keys === 0
      ? `${username} has no security keys.`
      : `${username} has no security keys any more (${keys} deleted): the password is enough.`,
  );
}

/** Prints all users, one a line: name, id, when added, and the state. */
export async function usersList(options: CommandOptions): Promise<void> {
  const users = await onDatabase(options, listUsers);
  const rows = users.map(({ id, username, displayName, createdAt, disabledAt, leaving }) => ({
    id,
    username,
    display_name: displayName,
    created_at: createdAt.toISOString(),
    state: leaving === 'remove' ? 'leaving' : disabledAt === null ? 'active' : 'disabled',
  }));
  const cells = rows.map(({ username, id, created_at, state }) => [username, id, created_at, state]);
  print(options, rows, () => tableLines(['USERNAME', 'ID', 'ADDED', 'STATUS'], cells).join('\n'));
}

/** The first line of a pipe or file on standard input; undefined at a terminal, or when it is empty. */
function passwordFromInput(): string | undefined {
  if (process.stdin.isTTY) return undefined;
  try {
    return readFileSync(0, 'utf8').split('\n')[0]?.replace(/\r$/, '') || undefined;
  } catch {
    return undefined;
  }
}
