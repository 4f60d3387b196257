/** Who did what, from where. The filters are in the address. */
import '../../parts/list.css';
import '../../parts/panel.css';
import '../../parts/table.css';
import './audit.css';
import { useSignal } from '@preact/signals';
import { ScrollText } from 'lucide';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { CallReply } from '../../../client/index.ts';
import { troupeLine } from '../../core/command.ts';
import { fieldError, useDeed } from '../../core/deed.ts';
import { exactTime } from '../../core/format.ts';
import { call } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import { go, place } from '../../core/router.ts';
import { Button, LinkButton } from '../../parts/button.tsx';
import { AsCommand } from '../../parts/copy.tsx';
import { SelectField, TextField } from '../../parts/field.tsx';
import { Empty, Failure, Loading } from '../../parts/note.tsx';
import { Page } from '../../parts/page.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Summary } from '../../parts/summary.tsx';
import { t } from '../../text/text.ts';
import { forAdministrator } from './administrator.tsx';

type AuditLine = CallReply<'adminAudit'>[number];

const PAGE = 100;
const HOUR_MS = 3_600_000;
const PATH = '/platform/audit';

export const AuditTrail = forAdministrator(() => {
  const { query } = place.value;
  const text = query.toString();
  return (
    <Page title={t.platform.audit} lead={t.audit.lead}>
      <div class="stack">
        <AuditEntries key={text} asked={query} />
      </div>
    </Page>
  );
});

/** What is asked for, of the address. */
function wantedOf(query: URLSearchParams) {
  const [user, action, hours] = [query.get('user') ?? '', query.get('action') ?? '', query.get('hours') ?? ''];
  const since = Number(hours) > 0 ? new Date(Date.now() - Number(hours) * HOUR_MS).toISOString() : '';
  return {
    user,
    action,
    hours,
    query: {
      limit: String(PAGE),
      ...(user === '' ? {} : { username: user }),
      ...(action === '' ? {} : { action }),
      ...(since === '' ? {} : { since }),
    },
  };
}

function AuditEntries({ asked }: { readonly asked: URLSearchParams }) {
  const wanted = wantedOf(asked);
  const older = useSignal<readonly AuditLine[]>([]);
  const isAll = useSignal(false);
  const first = useLoaded((signal) => call('adminAudit', { query: wanted.query }, { signal }));
  const list = first.value === undefined ? undefined : [...first.value, ...older.value];
  const more = useDeed(async () => {
    const before = list?.at(-1)?.id;
    const page = await call('adminAudit', { query: { ...wanted.query, before: String(before) } });
    older.value = [...older.value, ...page];
    isAll.value = page.length < PAGE;
  });
  const isMore = first.value?.length === PAGE && !isAll.value;
  return (
    <>
      <AuditFilter {...wanted} wrong={fieldError(first.error, 'action', 'query.action')} />
      {first.error?.fields.length !== 1 && <Loading data={first} many={5} />}
      {list !== undefined && (
        <Panel>
          {list.length === 0 ? (
            <Empty icon={ScrollText} title={t.audit.none} lead={t.audit.noneLead} />
          ) : (
            <AuditTable list={list} />
          )}
        </Panel>
      )}
      <Failure error={more.error} />
      {isMore ? (
        <div class="row">
          <Button onClick={() => void more.run()} busy={more.isBusy}>
            {t.audit.older}
          </Button>
        </div>
      ) : (
        list !== undefined && list.length > 0 && <p class="faint small">{t.audit.end}</p>
      )}
      <AsCommand
        troupe={troupeLine(
          'audit',
          ...(wanted.user === '' ? [] : ['--user', wanted.user]),
          ...(wanted.action === '' ? [] : ['--action', wanted.action]),
          ...(wanted.hours === '' ? [] : ['--since', `${wanted.hours}h`]),
        )}
      />
    </>
  );
}

interface AuditFilterProps {
  readonly user: string;
  readonly action: string;
  readonly hours: string;
  readonly wrong: string | undefined;
}

function AuditFilter(props: AuditFilterProps) {
  const [user, setUser] = useState(props.user);
  const [action, setAction] = useState(props.action);
  const [hours, setHours] = useState(props.hours);
  const submit = (event: Event) => {
    event.preventDefault();
    const query = new URLSearchParams(
      Object.entries({ user: user.trim(), action: action.trim(), hours }).filter(([, value]) => value !== ''),
    ).toString();
    go(query === '' ? PATH : `${PATH}?${query}`);
  };
  const isFiltered = props.user !== '' || props.action !== '' || props.hours !== '';
  return (
    <form class="inline audit-filter" onSubmit={submit}>
      <TextField label={t.audit.user} value={user} onInput={setUser} attributes={{ autocomplete: 'off' }} />
      <TextField
        label={t.audit.action}
        placeholder={t.audit.actionHint}
        error={props.wrong}
        value={action}
        onInput={setAction}
        attributes={{ autocomplete: 'off' }}
      />
      <SelectField label={t.audit.since} value={hours} choices={Object.entries(t.audit.periods)} onChange={setHours} />
      <Button type="submit">{t.audit.show}</Button>
      {isFiltered && (
        <LinkButton kind="bare" href={PATH}>
          {t.audit.reset}
        </LinkButton>
      )}
    </form>
  );
}

function AuditTable({ list }: { readonly list: readonly AuditLine[] }) {
  return (
    <div class="table-scroll">
      <table class="table audit" aria-label={t.audit.entries}>
        <thead>
          <tr>
            {[t.audit.action, t.audit.user, t.audit.target, t.audit.from, t.audit.at].map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {list.map((entry) => (
            <AuditRow key={entry.id} entry={entry} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function AuditRow({ entry: { at, action, username, target, address, request_id, detail } }: AuditRowProps) {
  const facts = [
    ...Object.entries(detail).map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
    ...(request_id === '' ? [] : [[t.audit.request, request_id]]),
  ];
  return (
    <tr>
      <th scope="row">
        <b class="mono">{action}</b>
        {facts.length > 0 && (
          <details class="about">
            <Summary>{t.audit.details}</Summary>
            <dl>
              {facts.map(([name = '', value = '']) => (
                <div key={name}>
                  <dt>{name}</dt>
                  <dd class="mono">{value}</dd>
                </div>
              ))}
            </dl>
          </details>
        )}
      </th>
      <AuditCell name={t.audit.user}>{username === '' ? t.audit.nobody : username}</AuditCell>
      <AuditCell name={t.audit.target}>
        <span class="mono">{target}</span>
      </AuditCell>
      <AuditCell name={t.audit.from}>
        <span class="mono">{address}</span>
      </AuditCell>
      <AuditCell name={t.audit.at}>
        <time dateTime={at}>{exactTime(Date.parse(at))}</time>
      </AuditCell>
    </tr>
  );
}

interface AuditRowProps {
  readonly entry: AuditLine;
}

function AuditCell({ name, children }: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <td>
      <span class="only-s name">{name}</span>
      <span class="cell">{children}</span>
    </td>
  );
}
