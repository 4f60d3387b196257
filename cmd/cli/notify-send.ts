/** `troupe notify send`: an operator tells a user, or everybody. */
import { sendNotice } from '../../actors/notify/send.ts';
import { CliError } from '../config/cli-error.ts';
import { type CommandOptions, onDatabase, print } from './command.ts';

/** Options as the command line gives them. */
export interface SendOptions extends CommandOptions {
  readonly user?: string;
  readonly everybody?: true;
  readonly title: string;
  readonly body: string;
  readonly category: string;
  readonly scope: string;
  readonly link: string;
}

/** Writes the notifications down; the platform delivers them, at once when it runs. */
export async function notifySend(options: SendOptions): Promise<void> {
  const { user, everybody, title, body, category, scope, link } = options;
  if ((user === undefined) === (everybody === undefined))
    throw new CliError('Say who is to be notified: --user NAME, or --everybody.');
  const to = user === undefined ? 'everybody' : { username: user };
  const notice = { title, message: body, category, scope, link };
  const users = await onDatabase(options, (db) => sendNotice(db, { now: Date.now }, to, notice));
  print(options, { users }, () =>
    user === undefined ? `Told ${users === 1 ? 'the only user' : `all ${users} users`}.` : `Told ${user}.`,
  );
}
