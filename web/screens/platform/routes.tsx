/** Where the gateway leads requests. */
import { Route as RouteIcon, Trash } from 'lucide';
import { useState } from 'preact/hooks';
import type { CallReply } from '../../../client/index.ts';
import { curlLine, troupeLine } from '../../core/command.ts';
import { fieldError, useDeed } from '../../core/deed.ts';
import { call } from '../../core/platform.ts';
import { AddButton, Button } from '../../parts/button.tsx';
import { CACHE_OF_OPENED, type CacheChoice, CacheField } from '../../parts/cache.tsx';
import { AsCommand } from '../../parts/copy.tsx';
import { Confirm } from '../../parts/dialog.tsx';
import { Check, TextField } from '../../parts/field.tsx';
import { FormDialog, FormFailure } from '../../parts/form.tsx';
import { Empty, Loading } from '../../parts/note.tsx';
import { Page } from '../../parts/page.tsx';
import { Panel } from '../../parts/panel.tsx';
import { DataTable } from '../../parts/table.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';
import { forAdministrator, usePolled } from './administrator.tsx';

type GatewayRoute = CallReply<'adminListRoutes'>[number];

export const RoutesPage = forAdministrator(() => {
  const [isAdding, setAdding] = useState(false);
  const [deleting, setDeleting] = useState<GatewayRoute>();
  const list = usePolled((signal) => call('adminListRoutes', undefined, { signal }));
  return (
    <Page
      title={t.platform.routes}
      lead={t.routes.lead}
      actions={<AddButton name={t.routes.add} onClick={() => setAdding(true)} />}
    >
      <div class="stack">
        <Loading data={list} many={5} />
        {list.value !== undefined &&
          (list.value.length === 0 ? (
            <Panel>
              <Empty icon={RouteIcon} title={t.routes.none} lead={t.routes.noneLead} />
            </Panel>
          ) : (
            <RouteTable rows={list.value} onDelete={setDeleting} />
          ))}
      </div>
      {isAdding && <AddRoute onClose={() => setAdding(false)} onAdded={list.reload} />}
      {deleting !== undefined && (
        <DeleteRoute route={deleting} onClose={() => setDeleting(undefined)} onDeleted={list.reload} />
      )}
    </Page>
  );
});

interface RouteTableProps {
  readonly rows: readonly GatewayRoute[];
  readonly onDelete: (route: GatewayRoute) => void;
}

function RouteTable({ rows, onDelete }: RouteTableProps) {
  return (
    <DataTable
      label={t.platform.routes}
      rows={rows}
      keyOf={({ id }) => id}
      hint={t.routes.hint}
      columns={[
        { id: 'host', name: t.routes.host, of: ({ host }) => host, cell: ({ host }) => <b>{host}</b> },
        {
          id: 'path',
          name: t.routes.path,
          of: ({ path_prefix }) => path_prefix,
          cell: ({ path_prefix, strip_prefix }) => (
            <>
              <span class="mono">{path_prefix}</span>
              {strip_prefix && <span class="under">{t.routes.stripped}</span>}
            </>
          ),
        },
        {
          id: 'target',
          name: t.routes.target,
          of: ({ target }) => target,
          cell: ({ target }) => <span class="mono">{target}</span>,
        },
        { id: 'cache', name: t.routes.cache, of: ({ cache = 'default' }) => cache },
        { id: 'priority', name: t.routes.priority, isNumber: true, of: ({ priority }) => priority },
        {
          id: 'kind',
          name: t.routes.kind,
          of: ({ managed }) => (managed ? t.routes.managed : t.routes.own),
          cell: ({ managed }) => <span class="tag">{managed ? t.routes.managed : t.routes.own}</span>,
        },
      ]}
      deeds={(route) => (
        <Button
          kind="bare"
          icon={Trash}
          label={t.routes.delete(nameOfRoute(route))}
          reason={route.managed ? t.routes.isManaged : undefined}
          onClick={() => onDelete(route)}
        />
      )}
    />
  );
}

/** `docs.example.com/api`. */
function nameOfRoute({ host, path_prefix }: GatewayRoute): string {
  return path_prefix === '/' ? host : `${host}${path_prefix}`;
}

const EMPTY = { host: '', path_prefix: '/', target: '', strip_prefix: false, priority: '0' };
type RouteDraft = typeof EMPTY & { readonly cache: CacheChoice };

function AddRoute({ onClose, onAdded }: { readonly onClose: () => void; readonly onAdded: () => void }) {
  const [draft, setDraft] = useState<RouteDraft>({ ...EMPTY, cache: CACHE_OF_OPENED });
  const put = (part: Partial<RouteDraft>) => setDraft({ ...draft, ...part });
  const body = {
    ...draft,
    host: draft.host.trim(),
    target: draft.target.trim(),
    priority: Number(draft.priority),
  };
  const deed = useDeed(async () => {
    const { host } = await call('adminAddRoute', { body });
    toast(t.routes.saved(host));
    onAdded();
    onClose();
  });
  const text = (name: 'host' | 'path_prefix' | 'target' | 'priority', label: string, hint?: string) => (
    <TextField
      label={label}
      hint={hint}
      error={fieldError(deed.error, name)}
      value={draft[name]}
      onInput={(value) => put({ [name]: value })}
      attributes={{
        required: true,
        autocomplete: 'off',
        ...(name === 'host' ? { autofocus: true } : {}),
        ...(name === 'priority' ? { inputMode: 'numeric' as const } : {}),
      }}
    />
  );
  return (
    <FormDialog title={t.routes.add} verb={t.routes.add} deed={deed} onClose={onClose}>
      {text('host', t.routes.host, t.routes.hostHint)}
      {text('path_prefix', t.routes.path)}
      {text('target', t.routes.target, t.routes.targetHint)}
      {text('priority', t.routes.priority, t.routes.priorityHint)}
      <Check
        label={t.routes.strip}
        hint={t.routes.stripHint}
        checked={draft.strip_prefix}
        onChange={(strip_prefix) => put({ strip_prefix })}
      />
      <CacheField value={draft.cache} onChange={(cache) => put({ cache })} />
      <FormFailure of={deed} />
      <AsCommand
        troupe={troupeLine(
          ...['routes', 'add', body.host || 'HOST', body.path_prefix, body.target || 'TARGET'],
          body.strip_prefix ? '--strip-prefix' : undefined,
          ...(body.priority === 0 ? [] : ['--priority', String(body.priority)]),
          ...(body.cache === 'default' ? [] : ['--cache', body.cache]),
        )}
        curl={curlLine('POST', '/api/admin/routes', body)}
      />
    </FormDialog>
  );
}

interface DeleteRouteProps {
  readonly route: GatewayRoute;
  readonly onClose: () => void;
  readonly onDeleted: () => void;
}

function DeleteRoute({ route, onClose, onDeleted }: DeleteRouteProps) {
  const name = nameOfRoute(route);
  const deed = useDeed(async () => {
    await call('adminDeleteRoute', { params: { id: String(route.id) } });
    toast(t.routes.deleted(name));
    onDeleted();
  });
  return (
    <Confirm title={t.routes.deleteTitle(name)} verb={t.routes.deleteVerb} deed={deed} onClose={onClose}>
      <p class="dim">{t.routes.deleteLead}</p>
      <AsCommand troupe={troupeLine('routes', 'remove', String(route.id))} />
    </Confirm>
  );
}
