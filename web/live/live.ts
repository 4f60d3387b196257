/** What is true now, as the platform tells it: the signals that all screens show. */
import { effect, type ReadonlySignal, signal } from '@preact/signals';
import type { Container, TroupeError, UserNotification } from '../../client/index.ts';
import { whenIdle } from '../core/idle.ts';
import { asTroupeError, client, refusedLogins } from '../core/platform.ts';
import { session } from '../core/session.ts';
import type { LinkState, LiveMessage, UsagePoint } from './messages.ts';
import { showNotice } from './notices.ts';
import { openSource } from './source.ts';

/** Points that are kept of each container: an hour of one every 5 s. */
const MOST_POINTS = 720;
/** Notifications beside the list of containers. */
export const MOST_RECENT = 30;

const containerList = signal<readonly Container[] | undefined>(undefined);
const usageById = signal<ReadonlyMap<string, readonly UsagePoint[]>>(new Map());
const recentNews = signal<readonly UserNotification[] | undefined>(undefined);
const recentFailure = signal<TroupeError | undefined>(undefined);
const linkState = signal<LinkState>({ state: 'connecting' });

/** The caller's containers; undefined until they are known. */
export const containers: ReadonlySignal<readonly Container[] | undefined> = containerList;
/** What each container used, oldest first. */
export const usage: ReadonlySignal<ReadonlyMap<string, readonly UsagePoint[]>> = usageById;
/** The newest notifications, newest first; undefined until they are known. */
export const recent: ReadonlySignal<readonly UserNotification[] | undefined> = recentNews;
/** Why they could not be asked for. */
export const recentError: ReadonlySignal<TroupeError | undefined> = recentFailure;
export const link: ReadonlySignal<LinkState> = linkState;
/** How many notifications nobody has read. */
export const unread = signal(0);

/** How long the stream waits for the first list, ms. */
const MOST_WAIT_MS = 2000;

let source: ReturnType<typeof openSource> | undefined;

/** Tries lost connections again at once, those of this tab's terminals and logs as well. */
export function wake(): void {
  source?.wake();
  client.wake();
}

/** Follows the platform for as long as somebody is logged in. Called once. */
export function startLive(): void {
  let userId = '';
  // Asked beside who is logged in, and that person's only: the stream opens later, in a worker that has to start.
  let first: ReturnType<typeof firstList> | undefined = firstList();
  effect(() => {
    const now = session.value;
    if (now.state === 'unknown') return;
    const asked = first;
    first = undefined;
    if (now.state === 'none') forget();
    if (now.state !== 'active') return;
    if (userId !== now.person.userId) forget();
    userId = now.person.userId;
    let isOver = false;
    const follow = () => {
      if (isOver || source !== undefined) return;
      source = openSource(userId, take);
      void fetchRecent();
    };
    if (asked === undefined) follow();
    else
      void asked.then((list) => {
        if (isOver) return;
        containerList.value ??= list;
        // The list is drawn first: the worker that follows the platform would start on the same processors.
        whenIdle(follow);
      });
    const late = setTimeout(follow, MOST_WAIT_MS);
    return () => {
      isOver = true;
      clearTimeout(late);
      source?.close();
      source = undefined;
    };
  });
  addEventListener('online', wake);
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) wake();
  });
}

/** Undefined if it is refused: nobody may be logged in. */
function firstList(): Promise<readonly Container[] | undefined> {
  return client.call('listContainers').then(
    (reply) => reply.containers,
    () => undefined,
  );
}

/** Puts a container in the list as an answer has it, before the stream tells it. */
export function noteContainer({ id, status }: Pick<Container, 'id' | 'status'>): void {
  const { value } = containerList;
  if (value !== undefined) containerList.value = value.map((one) => (one.id === id ? { ...one, status } : one));
}

/** Asks for the newest notifications, and how many are unread. */
export async function fetchRecent(): Promise<void> {
  try {
    const [list, { count }] = await Promise.all([
      client.call('listNotifications', { query: { limit: String(MOST_RECENT) } }),
      client.call('unreadCount'),
    ]);
    recentNews.value = list;
    unread.value = count;
    recentFailure.value = undefined;
  } catch (error) {
    // A login asks again.
    recentFailure.value = asTroupeError(error);
  }
}

/** Marks one as read, here at once. */
export async function markRead(notification: UserNotification): Promise<void> {
  if (notification.read) return;
  const { id } = notification;
  recentNews.value = recentNews.value?.map((one) => (one.id === id ? { ...one, read: true } : one));
  unread.value = Math.max(0, unread.value - 1);
  try {
    await client.call('markRead', { params: { id: String(id) } });
  } catch {
    // It counts as unread again when the list is asked for.
  }
}

/** Puts points before those that are known. */
export function addHistory(id: string, points: readonly UsagePoint[]): void {
  const known = usageById.value.get(id) ?? [];
  const first = known[0]?.at ?? Number.POSITIVE_INFINITY;
  setPoints(id, [...points.filter(({ at }) => at < first), ...known]);
}

function take(message: LiveMessage): void {
  switch (message.kind) {
    case 'containers':
      containerList.value = message.containers;
      return;
    case 'link':
      linkState.value = message.link;
      return;
    case 'usage': {
      const next = new Map(usageById.value);
      for (const [id, point] of Object.entries(message.points)) {
        const points = next.get(id) ?? [];
        if ((points.at(-1)?.at ?? 0) < point.at) next.set(id, [...points, point].slice(-MOST_POINTS));
      }
      usageById.value = next;
      return;
    }
    case 'notification': {
      const { notification } = message;
      const others = (recentNews.value ?? []).filter(({ id }) => id !== notification.id);
      recentNews.value = [notification, ...others].slice(0, MOST_RECENT);
      if (!notification.read) unread.value++;
      showNotice(notification);
      return;
    }
    case 'refused':
      refusedLogins.value++;
  }
}

function setPoints(id: string, points: readonly UsagePoint[]): void {
  usageById.value = new Map(usageById.value).set(id, points.slice(-MOST_POINTS));
}

function forget(): void {
  containerList.value = undefined;
  usageById.value = new Map();
  recentNews.value = undefined;
  recentFailure.value = undefined;
  unread.value = 0;
}
