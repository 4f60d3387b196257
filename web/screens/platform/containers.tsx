/** The containers of all users. */
import { Box, Square, Trash } from 'lucide';
import { useState } from 'preact/hooks';
import type { CallReply } from '../../../client/index.ts';
import { now } from '../../core/clock.ts';
import { curlLine } from '../../core/command.ts';
import { useDeed } from '../../core/deed.ts';
import { bytesOf, exactTime, percent, span } from '../../core/format.ts';
import { call } from '../../core/platform.ts';
import { personNow } from '../../core/session.ts';
import { usage } from '../../live/live.ts';
import { AsCommand } from '../../parts/copy.tsx';
import { Confirm, ConfirmByName } from '../../parts/dialog.tsx';
import { Menu } from '../../parts/menu.tsx';
import { Empty, Loading } from '../../parts/note.tsx';
import { Page } from '../../parts/page.tsx';
import { Panel } from '../../parts/panel.tsx';
import { containerShape, containerWord } from '../../parts/shape.ts';
import { Status } from '../../parts/status.tsx';
import { DataTable } from '../../parts/table.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';
import { forAdministrator, usePolled } from './administrator.tsx';

type OwnedContainer = CallReply<'listAllContainers'>[number];

/** What is being asked about a container. */
interface Asking {
  readonly container: OwnedContainer;
  readonly what: 'stop' | 'delete';
}

export const AllContainers = forAdministrator(() => {
  const [asking, setAsking] = useState<Asking>();
  const list = usePolled((signal) => call('listAllContainers', undefined, { signal }));
  const close = () => {
    setAsking(undefined);
    list.reload();
  };
  return (
    <Page title={t.platform.containers} lead={t.allContainers.lead}>
      <div class="stack">
        <Loading data={list} many={5} />
        {list.value !== undefined &&
          (list.value.length === 0 ? (
            <Panel>
              <Empty icon={Box} title={t.allContainers.none} lead={t.allContainers.noneLead} />
            </Panel>
          ) : (
            <ContainerTable rows={list.value} onAsk={setAsking} />
          ))}
      </div>
      {asking?.what === 'stop' && <StopContainer container={asking.container} onClose={close} />}
      {asking?.what === 'delete' && <DeleteAnyContainer container={asking.container} onClose={close} />}
    </Page>
  );
});

interface ContainerTableProps {
  readonly rows: readonly OwnedContainer[];
  readonly onAsk: (asking: Asking) => void;
}

function ContainerTable({ rows, onAsk }: ContainerTableProps) {
  const self = personNow()?.userId;
  return (
    <DataTable
      label={t.platform.containers}
      rows={rows}
      keyOf={({ id }) => id}
      order="name"
      hint={t.allContainers.hint}
      columns={[
        {
          id: 'name',
          name: t.allContainers.name,
          of: ({ name, id }) => `${name} ${id}`,
          cell: ({ name, id, user_id }) => (
            <>
              {user_id === self ? (
                <a class="link" href={`/containers/${id}`}>
                  <b>{name}</b>
                </a>
              ) : (
                <b>{name}</b>
              )}
              <span class="under mono">{id}</span>
            </>
          ),
        },
        {
          id: 'status',
          name: t.allContainers.state,
          of: ({ status }) => status,
          cell: ({ status, health, status_reason }) => (
            <>
              <Status shape={containerShape({ status, health })}>{containerWord({ status, health })}</Status>
              {status !== 'running' && status_reason !== undefined && <span class="under">{status_reason}</span>}
            </>
          ),
        },
        { id: 'owner', name: t.allContainers.owner, of: ({ owner }) => owner },
        {
          id: 'size',
          name: t.allContainers.size,
          of: ({ instance_type }) => instance_type,
          cell: ({ instance_type }) => t.containers.size(instance_type, t.sizes[instance_type]),
        },
        {
          id: 'cpu',
          name: t.allContainers.cpu,
          isNumber: true,
          of: (row) => lastOf(row)?.cpu ?? -1,
          cell: (row) => {
            const last = lastOf(row);
            return last === undefined ? <NotMeasured /> : percent(last.cpu / (last.cpuMost || 1000));
          },
        },
        {
          id: 'memory',
          name: t.allContainers.memory,
          isNumber: true,
          of: (row) => lastOf(row)?.memory ?? -1,
          cell: (row) => {
            const last = lastOf(row);
            return last === undefined ? <NotMeasured /> : bytesOf(last.memory, last.memoryMost);
          },
        },
        {
          id: 'made',
          name: t.allContainers.made,
          isNumber: true,
          of: ({ created_at }) => -created_at,
          cell: ({ created_at }) => (
            <time title={exactTime(created_at * 1000)}>{t.allContainers.ago(span(now.value - created_at * 1000))}</time>
          ),
        },
      ]}
      deeds={(container) => (
        <Menu
          label={t.allContainers.more(container.name, container.owner)}
          items={[
            {
              name: t.allContainers.stop,
              icon: Square,
              reason: isStill(container) ? t.container.isStill : undefined,
              onClick: () => onAsk({ container, what: 'stop' }),
            },
            {
              name: t.allContainers.delete,
              icon: Trash,
              isDanger: true,
              onClick: () => onAsk({ container, what: 'delete' }),
            },
          ]}
        />
      )}
    />
  );
}

function NotMeasured() {
  return <span class="faint">{t.allContainers.notMeasured}</span>;
}

function isStill({ status }: OwnedContainer): boolean {
  return status === 'stopped' || status === 'failed';
}

/** What it used last, while it runs. */
function lastOf({ id, status }: OwnedContainer) {
  return status === 'running' ? usage.value.get(id)?.at(-1) : undefined;
}

interface OwnedContainerProps {
  readonly container: OwnedContainer;
  readonly onClose: () => void;
}

function StopContainer({ container: { id, name, owner }, onClose }: OwnedContainerProps) {
  const deed = useDeed(async () => {
    await call('adminStopContainer', { params: { id } });
    toast(t.allContainers.stopped(name));
  });
  return (
    <Confirm title={t.allContainers.stopTitle(name, owner)} verb={t.allContainers.stop} deed={deed} onClose={onClose}>
      <p class="dim">{t.allContainers.stopLead}</p>
      <AsCommand curl={curlLine('POST', `/compute/admin/containers/${id}/stop`)} />
    </Confirm>
  );
}

/** Its data goes with it, so its name has to be typed. */
function DeleteAnyContainer({ container: { id, name, owner }, onClose }: OwnedContainerProps) {
  const deed = useDeed(async () => {
    await call('adminDeleteContainer', { params: { id } });
    toast(t.container.deleted(name));
  });
  return (
    <ConfirmByName
      name={name}
      title={t.allContainers.deleteTitle(name, owner)}
      lead={t.allContainers.deleteLead}
      verb={t.container.deleteVerb}
      deed={deed}
      onClose={onClose}
    >
      <AsCommand curl={curlLine('DELETE', `/compute/admin/containers/${id}`)} />
    </ConfirmByName>
  );
}
