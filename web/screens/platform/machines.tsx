/** What carries the platform: machines with their figures, processes with what they hold. */
import './machines.css';
import { Undo2, Unplug } from 'lucide';
import { useEffect, useState } from 'preact/hooks';
import type { CallReply, MachineMetrics, TroupeError } from '../../../client/index.ts';
import { now } from '../../core/clock.ts';
import { troupeLine } from '../../core/command.ts';
import { useDeed } from '../../core/deed.ts';
import { bytesOf, count, decimal, exactTime, percent, span } from '../../core/format.ts';
import { call, client, noteRefusal } from '../../core/platform.ts';
import { Button } from '../../parts/button.tsx';
import { AsCommand } from '../../parts/copy.tsx';
import { Confirm } from '../../parts/dialog.tsx';
import { Check } from '../../parts/field.tsx';
import { Bones, Failure, Loading } from '../../parts/note.tsx';
import { Page } from '../../parts/page.tsx';
import { Panel } from '../../parts/panel.tsx';
import { RowOf, Rows } from '../../parts/rows.tsx';
import { Status, type StatusShape } from '../../parts/status.tsx';
import { DataTable } from '../../parts/table.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';
import { forAdministrator, usePolled } from './administrator.tsx';
import { amountOf } from './quantity.ts';

type Machine = MachineMetrics['nodes'][number];
type PlatformProcess = CallReply<'adminNodes'>['nodes'][number];

function heldBy({ shards }: PlatformProcess): number {
  return Object.values(shards).reduce((sum, held) => sum + held, 0);
}

const SHAPES: Readonly<Record<PlatformProcess['state'], StatusShape>> = {
  serving: 'running',
  draining: 'starting',
  drained: 'stopped',
  gone: 'failed',
};
/** Where a figure becomes a problem, of 1. */
const NEARLY_FULL = 0.9;

export const Machines = forAdministrator(() => {
  const [draining, setDraining] = useState<PlatformProcess>();
  const processes = usePolled((signal) => call('adminNodes', undefined, { signal }));
  const undrain = useDeed(async ({ id, address }: PlatformProcess) => {
    await call('adminUndrainNode', { params: { id } });
    toast(t.machines.undrained(address));
    processes.reload();
  });
  return (
    <Page title={t.platform.machines} lead={t.machines.lead}>
      <div class="stack">
        <MeasuredMachines />
        <Loading data={processes} many={2} />
        <Failure error={undrain.error} />
        {processes.value !== undefined && (
          <>
            <ProcessTable
              rows={processes.value.nodes}
              onDrain={setDraining}
              onUndrain={(one) => void undrain.run(one)}
            />
            <HeldShards services={processes.value.services} />
          </>
        )}
      </div>
      {draining !== undefined && (
        <DrainProcess
          process={draining}
          onClose={() => {
            setDraining(undefined);
            processes.reload();
          }}
        />
      )}
    </Page>
  );
});

/** What was measured last, and why no more comes. */
function useMachines(): { measured: MachineMetrics | undefined; error: TroupeError | undefined; again: () => void } {
  const [measured, setMeasured] = useState<MachineMetrics>();
  const [error, setError] = useState<TroupeError>();
  const [round, setRound] = useState(0);
  useEffect(() => {
    setError(undefined);
    let isLeft = false;
    const stream = client.follow.machines({ onMachines: setMeasured });
    void stream.done.then((end) => {
      if (isLeft || end.error === undefined) return;
      noteRefusal(end.error);
      setError(end.error);
    });
    return () => {
      isLeft = true;
      stream.close();
    };
  }, [round]);
  return { measured, error, again: () => setRound(round + 1) };
}

function MeasuredMachines() {
  const { measured, error, again } = useMachines();
  if (error !== undefined) return <Failure error={error} onRetry={again} />;
  if (measured === undefined) return <Bones tall={120} />;
  const at = Date.parse(measured.timestamp);
  return (
    <Panel
      title={t.machines.machines}
      aside={
        <time class="faint tiny measured" dateTime={measured.timestamp} title={exactTime(at)}>
          {t.machines.measured(span(now.value - at))}
        </time>
      }
    >
      {measured.nodes.length === 0 && <p class="inside dim small">{t.machines.none}</p>}
      <div class="lines">
        {measured.nodes.map((machine) => (
          <MachineLine key={machine.name} machine={machine} />
        ))}
      </div>
    </Panel>
  );
}

function MachineLine({ machine }: { readonly machine: Machine }) {
  const { name, conditions } = machine;
  const isReady = conditions.some(({ type, status }) => type === 'Ready' && status === 'True');
  const pressed = conditions.flatMap(({ type, status }) => {
    const word = Object.entries(t.machines.pressure).find(([pressure]) => pressure === type)?.[1];
    return word === undefined || status !== 'True' ? [] : [word];
  });
  return (
    <article class="machine" aria-label={name}>
      <div>
        <h3 class="mono">{name}</h3>
        <div class="row wrap">
          <Status shape={isReady ? 'running' : 'failed'}>{isReady ? t.machines.ready : t.machines.notReady}</Status>
          {pressed.map((word) => (
            <Status key={word} shape="warn">
              {word}
            </Status>
          ))}
        </div>
      </div>
      <Share
        name={t.machines.cpu}
        share={machine.cpu_percent / 100}
        of={t.machines.cores(decimal(amountOf(machine.cpu_usage)), decimal(amountOf(machine.cpu_capacity)))}
      />
      <Share
        name={t.machines.memory}
        share={machine.memory_percent / 100}
        of={bytesOf(amountOf(machine.memory_usage), amountOf(machine.memory_capacity))}
      />
      <Share
        name={t.machines.disk}
        share={machine.disk_percent / 100}
        of={bytesOf(machine.disk_usage, machine.disk_capacity)}
      />
    </article>
  );
}

interface ShareProps {
  readonly name: string;
  /** Of 1. */
  readonly share: number;
  readonly of: string;
}

function Share({ name, share, of }: ShareProps) {
  const width = Math.min(100, Math.max(0, share * 100));
  return (
    <div class={`share ${share >= NEARLY_FULL ? 'full' : ''}`}>
      <p>
        <span>{name}</span>
        <b>{percent(share)}</b>
      </p>
      <svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
        <rect width="100" height="4" />
        <rect class="used" width={width} height="4" />
      </svg>
      <p class="of">{of}</p>
    </div>
  );
}

interface ProcessTableProps {
  readonly rows: readonly PlatformProcess[];
  readonly onDrain: (process: PlatformProcess) => void;
  readonly onUndrain: (process: PlatformProcess) => void;
}

function ProcessTable({ rows, onDrain, onUndrain }: ProcessTableProps) {
  return (
    <DataTable
      label={t.machines.processes}
      isTitled
      rows={rows}
      keyOf={({ id }) => id}
      order="name"
      columns={[
        {
          id: 'name',
          name: t.machines.name,
          of: ({ address, id }) => `${address} ${id}`,
          cell: ({ address, id }) => (
            <>
              <b class="mono">{address}</b>
              <span class="under mono">{id}</span>
            </>
          ),
        },
        {
          id: 'state',
          name: t.machines.state,
          of: ({ state }) => state,
          cell: ({ state }) => <Status shape={SHAPES[state]}>{t.machines.states[state]}</Status>,
        },
        {
          id: 'role',
          name: t.machines.roles,
          of: ({ roles }) => roles.join(' '),
          cell: ({ roles }) => (
            <span class="row wrap tags">
              {roles.map((role) => (
                <span class="tag" key={role}>
                  {role}
                </span>
              ))}
            </span>
          ),
        },
        { id: 'version', name: t.machines.version, of: ({ version }) => version },
        {
          id: 'up',
          name: t.machines.up,
          isNumber: true,
          of: ({ started_at }) => -Date.parse(started_at),
          cell: ({ started_at }) => (
            <time dateTime={started_at} title={exactTime(Date.parse(started_at))}>
              {span(now.value - Date.parse(started_at))}
            </time>
          ),
        },
        {
          id: 'shards',
          name: t.machines.shards,
          isNumber: true,
          of: heldBy,
          cell: (process) => count(heldBy(process)),
        },
      ]}
      deeds={(process) =>
        process.state === 'draining' || process.state === 'drained' ? (
          <Button icon={Undo2} label={t.machines.undrainOf(process.address)} onClick={() => onUndrain(process)}>
            {t.machines.undrain}
          </Button>
        ) : (
          <Button
            icon={Unplug}
            label={t.machines.drainOf(process.address)}
            onClick={() => onDrain(process)}
            reason={process.state === 'gone' ? t.machines.states.gone : undefined}
          >
            {t.machines.drain}
          </Button>
        )
      }
    />
  );
}

interface DrainProcessProps {
  readonly process: PlatformProcess;
  readonly onClose: () => void;
}

function DrainProcess({ process: { id, address }, onClose }: DrainProcessProps) {
  const [isForced, setForced] = useState(false);
  const deed = useDeed(async () => {
    await call('adminDrainNode', { params: { id }, query: { force: isForced ? 'true' : 'false' } });
    toast(t.machines.drained(address));
  });
  return (
    <Confirm title={t.machines.drainTitle(address)} verb={t.machines.drain} deed={deed} onClose={onClose}>
      <p class="dim">{t.machines.drainLead}</p>
      <Check label={t.machines.force} hint={t.machines.forceHint} checked={isForced} onChange={setForced} />
      <AsCommand troupe={troupeLine('nodes', 'drain', address, isForced ? '--force' : undefined)} />
    </Confirm>
  );
}

function HeldShards({ services }: { readonly services: CallReply<'adminNodes'>['services'] }) {
  return (
    <Panel title={t.machines.services}>
      <Rows>
        {services.map(({ service, shards, held }) => (
          <RowOf
            key={service}
            name={service}
            actions={
              <Status shape={held === shards ? 'running' : 'warn'}>
                {held === shards ? t.machines.allHeld(count(shards)) : t.machines.held(count(held), count(shards))}
              </Status>
            }
          />
        ))}
      </Rows>
    </Panel>
  );
}
