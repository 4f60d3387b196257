/** Who may log in, and what is done about it. */

import { useSignal } from '@preact/signals';
import {
  Ban,
  CircleCheck,
  Gauge,
  HardDrive,
  type IconNode,
  KeyRound,
  Link,
  MonitorSmartphone,
  RotateCcwKey,
  Trash,
} from 'lucide';
import { useState } from 'preact/hooks';
import { useDeed } from '../../core/deed.ts';
import { dateOf, exactTime } from '../../core/format.ts';
import { call } from '../../core/platform.ts';
import { AddButton, Button } from '../../parts/button.tsx';
import { Menu } from '../../parts/menu.tsx';
import { Failure, Loading } from '../../parts/note.tsx';
import { Page } from '../../parts/page.tsx';
import { Status, type StatusShape } from '../../parts/status.tsx';
import { DataTable } from '../../parts/table.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';
import { forAdministrator, usePolled } from './administrator.tsx';
import { AddUser, AskAboutUser, type ListedUser, type UserQuestion } from './user-questions.tsx';

const PAGE = 500;

const SHAPES: Readonly<Record<ListedUser['state'], StatusShape>> = {
  active: 'running',
  disabled: 'stopped',
  leaving: 'starting',
};

export const Users = forAdministrator(() => {
  const [isAdding, setAdding] = useState(false);
  const [asked, setAsked] = useState<{ readonly user: ListedUser; readonly what: UserQuestion }>();
  const more = useSignal<readonly ListedUser[]>([]);
  const isAll = useSignal(false);
  const first = usePolled((signal) => call('adminListUsers', { query: { limit: String(PAGE) } }, { signal }));
  const rows = [...(first.value ?? []), ...more.value];
  const older = useDeed(async () => {
    const after = rows.at(-1)?.username ?? '';
    const page = await call('adminListUsers', { query: { limit: String(PAGE), after } });
    more.value = [...more.value, ...page];
    isAll.value = page.length < PAGE;
  });
  const enable = useDeed(async ({ id, username }: ListedUser) => {
    await call('adminEnableUser', { params: { id } });
    toast(t.users.enabled(username));
    first.reload();
  });
  const isMore = first.value !== undefined && first.value.length === PAGE && !isAll.value;
  return (
    <Page
      title={t.platform.users}
      lead={t.users.lead}
      actions={<AddButton name={t.users.add} onClick={() => setAdding(true)} />}
    >
      <div class="stack">
        <Loading data={first} many={5} />
        <Failure error={enable.error} />
        {first.value !== undefined && (
          <UserTable
            rows={rows}
            onAsk={(user, what) => (what === 'enable' ? void enable.run(user) : setAsked({ user, what }))}
          />
        )}
        <Failure error={older.error} />
        {isMore && (
          <div class="row">
            <Button onClick={() => void older.run()} busy={older.isBusy}>
              {t.users.older}
            </Button>
          </div>
        )}
      </div>
      {isAdding && <AddUser onClose={() => setAdding(false)} onAdded={first.reload} />}
      {asked !== undefined && (
        <AskAboutUser
          user={asked.user}
          what={asked.what}
          onClose={() => {
            setAsked(undefined);
            first.reload();
          }}
        />
      )}
    </Page>
  );
});

interface UserTableProps {
  readonly rows: readonly ListedUser[];
  readonly onAsk: (user: ListedUser, what: UserQuestion | 'enable') => void;
}

function UserTable({ rows, onAsk }: UserTableProps) {
  return (
    <DataTable
      label={t.platform.users}
      rows={rows}
      keyOf={({ id }) => id}
      order="name"
      hint={t.users.hint}
      columns={[
        {
          id: 'name',
          name: t.users.name,
          of: ({ username, display_name }) => `${username} ${display_name}`,
          cell: ({ username, display_name, is_admin }) => (
            <>
              <span class="row">
                <b>{username}</b>
                {is_admin && <span class="tag">{t.users.administrator}</span>}
              </span>
              {display_name !== username && <span class="under">{display_name}</span>}
            </>
          ),
        },
        {
          id: 'state',
          name: t.users.state,
          of: ({ state }) => state,
          cell: ({ state, disabled_at, registry_limit_mb: limit, limits }) => (
            <>
              <Status shape={SHAPES[state]}>{t.users.states[state]}</Status>
              {disabled_at !== null && <span class="under">{t.users.since(dateOf(Date.parse(disabled_at)))}</span>}
              {typeof limits?.containers === 'number' && (
                <span class="under">{t.users.limitsUnder(limits.containers)}</span>
              )}
              {limit !== null && <span class="under">{t.users.imagesUnder(limit)}</span>}
            </>
          ),
        },
        {
          id: 'added',
          name: t.users.added,
          of: ({ created_at }) => Date.parse(created_at),
          cell: ({ created_at }) => (
            <time dateTime={created_at} title={exactTime(Date.parse(created_at))}>
              {dateOf(Date.parse(created_at))}
            </time>
          ),
        },
      ]}
      deeds={(user) => <Menu label={t.users.more(user.username)} items={deedsOf(user, (what) => onAsk(user, what))} />}
    />
  );
}

function deedsOf({ state, is_admin }: ListedUser, ask: (what: UserQuestion | 'enable') => void) {
  const isLeaving = state === 'leaving' ? t.users.leavingReason : undefined;
  const noLink = state === 'disabled' ? t.users.disabledReason : isLeaving;
  const stays = is_admin ? t.users.notAdministrator : isLeaving;
  const deed = (name: string, icon: IconNode, what: UserQuestion | 'enable', reason?: string) => ({
    name,
    icon,
    reason,
    asks: what === 'enable',
    isDanger: what === 'remove',
    onClick: () => ask(what),
  });
  return [
    deed(t.users.sessions, MonitorSmartphone, 'sessions'),
    deed(t.users.newPassword, RotateCcwKey, 'password', isLeaving),
    deed(t.users.link, Link, 'link', noLink),
    deed(t.users.forget, KeyRound, 'forget', isLeaving),
    deed(t.users.limits, Gauge, 'limits', isLeaving),
    deed(t.users.images, HardDrive, 'images', is_admin ? t.users.imagesNoLimit : isLeaving),
    state === 'disabled' ? deed(t.users.enable, CircleCheck, 'enable') : deed(t.users.disable, Ban, 'disable', stays),
    deed(t.users.remove, Trash, 'remove', stays),
  ];
}
