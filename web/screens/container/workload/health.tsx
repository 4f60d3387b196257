/** How it is known that the program in a container is well. */
import { useState } from 'preact/hooks';
import { troupeLine } from '../../../core/command.ts';
import { fieldError } from '../../../core/deed.ts';
import { SelectField, TextField } from '../../../parts/field.tsx';
import { Note } from '../../../parts/note.tsx';
import { Panel } from '../../../parts/panel.tsx';
import { t } from '../../../text/text.ts';
import { UpdateForm, useUpdate } from '../update-form.tsx';
import type { OfWorkload, WorkloadSettings } from './of-workload.ts';
import { lineOf, wordsOf } from './words.ts';

type Way = 'none' | 'http' | 'tcp' | 'command';
type Check = NonNullable<WorkloadSettings['health']>;

/** As it is typed. */
interface HealthDraft {
  readonly way: Way;
  readonly port: string;
  readonly path: string;
  readonly host: string;
  readonly command: string;
  readonly grace: string;
}

const WAYS: readonly Way[] = ['none', 'http', 'tcp', 'command'];
const NUMERIC = { inputMode: 'numeric', required: true, autocomplete: 'off' } as const;

export function HealthForm({ container, settings, onChanged }: OfWorkload) {
  const { name, status, health_reason } = container;
  const before = draftOf(settings.health ?? null);
  // Only what was typed is kept, as in the form of the program.
  const [typed, setTyped] = useState<Partial<HealthDraft>>({});
  const draft = { ...before, ...typed };
  const change = (part: Partial<HealthDraft>) => setTyped({ ...typed, ...part });
  const health = checkOf(draft);
  const deed = useUpdate(container, { health }, () => {
    setTyped({});
    onChanged();
  });
  const isSame = JSON.stringify(health) === JSON.stringify(checkOf(before));
  const isOpen = draft.way === 'command' && wordsOf(draft.command) === undefined;
  const reason = isOpen ? t.workload.openQuote : isSame ? t.settings.unchanged : undefined;
  return (
    <Panel title={t.health.title}>
      <UpdateForm
        container={container}
        body={{ health }}
        deed={deed}
        reason={reason}
        troupe={lineThatSets(name, health)}
      >
        <p class="dim small">{t.health.lead}</p>
        {status === 'running' && health_reason !== undefined && (
          <Note tone={container.health === 'unhealthy' ? 'warn' : 'busy'}>{health_reason}</Note>
        )}
        <SelectField
          label={t.health.way}
          value={draft.way}
          choices={WAYS.map((one) => [one, t.health.ways[one]])}
          onChange={(to) => change({ way: WAYS.find((one) => one === to) ?? draft.way })}
        />
        <WayFields draft={draft} change={change} wrong={(...paths) => fieldError(deed.error, ...paths)} />
      </UpdateForm>
    </Panel>
  );
}

interface WayFieldsProps {
  readonly draft: HealthDraft;
  readonly change: (part: Partial<HealthDraft>) => void;
  readonly wrong: (...paths: readonly string[]) => string | undefined;
}

/** The fields of the way that is chosen. */
function WayFields({ draft, change, wrong }: WayFieldsProps) {
  const { way } = draft;
  if (way === 'none') return null;
  return (
    <>
      {way === 'command' && (
        <TextField
          label={t.health.command}
          hint={t.health.commandHint}
          error={wordsOf(draft.command) === undefined ? t.workload.openQuote : wrong('health.command')}
          value={draft.command}
          onInput={(to) => change({ command: to })}
        />
      )}
      <div class="inline">
        {way !== 'command' && (
          <TextField
            label={t.health.port}
            hint={t.health.portHint}
            error={wrong('health.http.port', 'health.tcp.port')}
            value={draft.port}
            onInput={(to) => change({ port: to })}
            attributes={{ ...NUMERIC, maxLength: 5 }}
          />
        )}
        <TextField
          label={t.health.grace}
          hint={t.health.graceHint}
          error={wrong('health.grace')}
          value={draft.grace}
          onInput={(to) => change({ grace: to })}
          attributes={{ ...NUMERIC, maxLength: 3 }}
        />
      </div>
      {way === 'http' && (
        <div class="inline">
          <TextField
            label={t.health.path}
            error={wrong('health.http.path')}
            value={draft.path}
            onInput={(to) => change({ path: to })}
            attributes={{ required: true, maxLength: 1024, autocomplete: 'off' }}
          />
          <TextField
            label={t.health.host}
            hint={t.health.hostHint}
            error={wrong('health.http.host')}
            value={draft.host}
            onInput={(to) => change({ host: to })}
            attributes={{ maxLength: 253, autocomplete: 'off' }}
          />
        </div>
      )}
    </>
  );
}

function draftOf(check: Check | null): HealthDraft {
  const way = check?.http ? 'http' : check?.tcp ? 'tcp' : check?.command ? 'command' : 'none';
  return {
    way,
    port: String(check?.http?.port ?? check?.tcp?.port ?? 8080),
    path: check?.http?.path ?? '/',
    host: check?.http?.host ?? '',
    command: lineOf(check?.command ?? null),
    grace: String(check?.grace ?? 60),
  };
}

/** What is sent. */
function checkOf({ way, port, path, host, command, grace }: HealthDraft): Check | null {
  const graceful = { grace: Number(grace) };
  const named = host.trim() === '' ? {} : { host: host.trim() };
  if (way === 'http') return { http: { port: Number(port), path: path.trim(), ...named }, ...graceful };
  if (way === 'tcp') return { tcp: { port: Number(port) }, ...graceful };
  return way === 'command' ? { command: wordsOf(command) ?? [], ...graceful } : null;
}

/** Undefined where the command line has no way to say it. */
function lineThatSets(name: string, check: Check | null): string | undefined {
  if (check === null) return troupeLine('update', name, '--health', 'none');
  const { http, tcp, grace } = check;
  if (http?.host !== undefined || (http === undefined && tcp === undefined)) return undefined;
  const look = http === undefined ? `tcp:${tcp?.port}` : `http:${http.port}${http.path ?? '/'}`;
  return troupeLine('update', name, '--health', look, '--health-grace', String(grace ?? 60));
}
