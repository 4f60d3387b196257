/** What happened, by day, and what is not told. */

import { useSignal } from '@preact/signals';
import { Bell, CheckCheck, Send } from 'lucide';
import { useEffect } from 'preact/hooks';
import type { UserNotification } from '../../../client/index.ts';
import { useDeed } from '../../core/deed.ts';
import { dayOf } from '../../core/format.ts';
import { call } from '../../core/platform.ts';
import { fetchRecent, MOST_RECENT, recent, recentError, unread } from '../../live/live.ts';
import { Button, LinkButton } from '../../parts/button.tsx';
import { Bones, Empty, Failure } from '../../parts/note.tsx';
import { Page } from '../../parts/page.tsx';
import { Panel } from '../../parts/panel.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';
import { Feed } from './feed.tsx';
import { Mutes } from './mutes.tsx';

const PAGE = 50;

export function Activity() {
  const older = useSignal<readonly UserNotification[]>([]);
  const isAll = useSignal(false);
  const newest = recent.value;
  const list = newest === undefined ? undefined : merged(newest, older.value);
  const isWhole = isAll.value || (newest !== undefined && newest.length < MOST_RECENT);
  const more = useDeed(async () => {
    const before = list?.at(-1)?.id;
    const query = { limit: String(PAGE), ...(before === undefined ? {} : { before: String(before) }) };
    const page = await call('listNotifications', { query });
    older.value = [...older.value, ...page];
    isAll.value = page.length < PAGE;
  });
  const markAll = useDeed(async () => {
    await call('markAllRead');
    older.value = older.value.map((one) => ({ ...one, read: true }));
    await fetchRecent();
    toast(t.activity.markedAll);
  });
  useEffect(() => void fetchRecent(), []);
  return (
    <Page
      title={t.shell.activity}
      lead={t.activity.lead}
      actions={
        <div class="row wrap">
          {unread.value > 0 && (
            <Button icon={CheckCheck} onClick={() => void markAll.run()} busy={markAll.isBusy}>
              {t.activity.markAll}
            </Button>
          )}
          <LinkButton icon={Send} href="/activity/delivery">
            {t.delivery.link}
          </LinkButton>
        </div>
      }
      narrow
    >
      <div class="stack">
        <Failure error={markAll.error} />
        <Failure error={recentError.value} onRetry={() => void fetchRecent()} />
        {list === undefined && recentError.value === undefined && <Bones tall={64} many={4} />}
        {list !== undefined && <Days list={list} />}
        <Failure error={more.error} />
        {list !== undefined && list.length > 0 && !isWhole && (
          <div class="row">
            <Button onClick={() => void more.run()} busy={more.isBusy}>
              {t.activity.more}
            </Button>
          </div>
        )}
        {isAll.value && <p class="faint small">{t.activity.end}</p>}
        <Mutes categories={[...new Set((list ?? []).map(({ category }) => category))]} />
      </div>
    </Page>
  );
}

function Days({ list }: { readonly list: readonly UserNotification[] }) {
  if (list.length === 0)
    return (
      <Panel>
        <Empty icon={Bell} title={t.activity.none} lead={t.activity.noneLead} />
      </Panel>
    );
  const days = new Map<string, UserNotification[]>();
  for (const one of list) {
    const day = dayOf(Date.parse(one.created_at));
    days.set(day, [...(days.get(day) ?? []), one]);
  }
  return (
    <>
      {[...days].map(([day, own]) => (
        <Panel key={day} title={day}>
          <Feed of={own} />
        </Panel>
      ))}
    </>
  );
}

/** Newest first, each once. */
function merged(newer: readonly UserNotification[], older: readonly UserNotification[]): UserNotification[] {
  const known = new Map([...older, ...newer].map((one) => [one.id, one]));
  return [...known.values()].sort((a, b) => b.id - a.id);
}
