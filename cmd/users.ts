/** `troupe users add|list|passwd|forget-keys`: users are made here, there is no sign-up. */
import { readFileSync } from 'node:fs';
import { addUser, forgetKeys, generatePassword, listUsers, setPassword } from '../actors/auth/users.ts';
import { readEnvironment } from './config.ts';
import { withDatabase } from './database.ts';
import { openLog } from './log.ts';

interface UsersOptions {
  readonly data: string;
  readonly json: boolean;
}

/** Adds a user with the password from standard input, or a generated one, which is printed. */
export async function usersAdd(username: string, options: UsersOptions): Promise<void> {
  const given = passwordFromInput();
  const password = given ?? generatePassword();
  const user = await run(options, (db) => addUser(db, username, password));
  print(options, { ...user, password: given === undefined ? password : null }, () =>
    given === undefined ? `Added ${username}. The password is ${password} (shown only now).` : `Added ${username}.`,
  );
}

/** Sets a user's password, from standard input or generated. */
export async function usersPasswd(username: string, options: UsersOptions): Promise<void> {
  const given = passwordFromInput();
  const password = given ?? generatePassword();
  await run(options, (db) => setPassword(db, username, password));
  print(options, { username, password: given === undefined ? password : null }, () =>
    given === undefined
      ? `${username} now has the password ${password} (shown only now).`
      : `The password of ${username} is changed.`,
  );
}

/** Deletes all security keys of a user. */
export async function usersForgetKeys(username: string, options: UsersOptions): Promise<void> {
  const keys = await run(options, (db) => forgetKeys(db, username));
  print(options, { username, keys }, () =>
    keys === 0
      ? `${username} has no security keys.`
      : `${username} has no security keys any more (${keys} deleted): the password is enough.`,
  );
}

/** Prints all users, one a line: name, id, when added. */
export async function usersList(options: UsersOptions): Promise<void> {
  const users = await run(options, listUsers);
  const rows = users.map(({ id, username, displayName, createdAt }) => ({
    id,
    username,
    display_name: displayName,
    created_at: createdAt.toISOString(),
  }));
  const width = Math.max(8, ...rows.map(({ username }) => username.length));
  print(options, rows, () =>
    [
      `${'USERNAME'.padEnd(width)}  ID            ADDED`,
      ...rows.map((row) => `${row.username.padEnd(width)}  ${row.id}  ${row.created_at}`),
    ].join('\n'),
  );
}

function run<T>(options: UsersOptions, work: Parameters<typeof withDatabase<T>>[3]): Promise<T> {
  const environment = readEnvironment(process.env);
  return withDatabase(environment, options.data, openLog(environment.LOG_LEVEL ?? 'error'), work);
}

function print(options: UsersOptions, value: unknown, text: () => string): void {
  process.stdout.write(`${options.json ? JSON.stringify(value) : text()}\n`);
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
