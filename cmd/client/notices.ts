/** `troupe notifications`, `mute`. */
import type { UserNotification } from '../../client/index.ts';
import { clean } from './clean.ts';
import { connectionNotice, untilInterrupted } from './logs.ts';
import { type ClientCommandOptions, type ClientSession, openSession } from './session.ts';

export interface NotificationsOptions extends ClientCommandOptions {
  readonly follow?: boolean;
  readonly unread?: boolean;
  readonly markRead?: boolean;
  readonly limit: number;
}

/** Lists notifications, the newest last; with -f goes on with those that come. */
export async function showNotifications(options: NotificationsOptions): Promise<void> {
  const session = openSession(options);
  const { client, out } = session;
  const newest = await client.call('listNotifications', { query: { limit: String(options.limit) } });
  const shown = (options.unread ? newest.filter(({ read }) => !read) : newest).toReversed();
  if (options.follow) {
    for (const notification of shown) print(session, notification);
    await follow(session, newest[0]?.id ?? 0);
    return;
  }
  const rows = shown.map((each) => [
    out.when(each.created_at),
    each.category,
    each.title,
    each.message,
    String(each.id),
  ]);
  out.table(
    options.unread ? shown.toReversed() : newest,
    ['WHEN', 'CATEGORY', 'TITLE', 'MESSAGE', 'ID'],
    rows,
    'There is nothing new.',
  );
  if (options.markRead) {
    await client.call('markAllRead');
    if (!out.json) out.note('All are marked as read.');
  }
}

async function follow(session: ClientSession, since: number): Promise<void> {
  const following = session.client.follow.notifications({
    since,
    onNotification: (notification) => print(session, notification),
    onState: connectionNotice(session),
  });
  await untilInterrupted(session, following);
}

function print({ out }: ClientSession, notification: UserNotification): void {
  if (out.json) {
    out.line(JSON.stringify(notification));
    return;
  }
  const { created_at, title, message } = notification;
  const when = out.isTerminal ? new Date(created_at).toLocaleTimeString('en-GB') : created_at;
  const [head, text] = [clean(title), clean(message)];
  out.line(
    out.isTerminal ? `${out.paint(when, 'dim')}  ${out.paint(head, 'bold')}  ${text}` : `${when}\t${head}\t${text}`,
  );
}

/** Lists what is muted. */
export async function listOwnMutes(options: ClientCommandOptions): Promise<void> {
  const { client, out } = openSession(options);
  const mutes = await client.call('listMutes');
  const rows = mutes.map(({ category, scope, created_at }) => [
    category,
    scope === '' ? '(all)' : scope,
    out.when(created_at),
  ]);
  out.table(mutes, ['CATEGORY', 'SCOPE', 'SINCE'], rows, 'Nothing is muted.');
}

/** Mutes a category, or one scope of it. */
export async function mute(category: string, scope: string | undefined, options: ClientCommandOptions): Promise<void> {
  const { client, out } = openSession(options);
  const answer = await client.call('addMute', { body: { category, scope: scope ?? '' } });
  out.done(answer, `You are not told of ${named(category, scope)} any more.`);
}

/** Unmutes it. */
export async function unmute(
  category: string,
  scope: string | undefined,
  options: ClientCommandOptions,
): Promise<void> {
  const { client, out } = openSession(options);
  const answer = await client.call('removeMute', { body: { category, scope: scope ?? '' } });
  out.done(answer, `You are told of ${named(category, scope)} again.`);
}

const named = (category: string, scope: string | undefined) =>
  scope === undefined ? category : `${category} ${scope}`;
