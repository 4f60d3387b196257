/** What runs in a container, how it is stopped, and what follows when it ends. */
import { useState } from 'preact/hooks';
import { fieldError } from '../../../core/deed.ts';
import { SelectField, TextField } from '../../../parts/field.tsx';
import { Note } from '../../../parts/note.tsx';
import { Panel } from '../../../parts/panel.tsx';
import { t } from '../../../text/text.ts';
import { type SettingsChange, UpdateForm, useUpdate } from '../update-form.tsx';
import type { OfWorkload, WorkloadSettings } from './of-workload.ts';
import { lineOf, wordsOf } from './words.ts';

/** As it is typed. */
interface ProgramDraft {
  readonly command: string;
  readonly entrypoint: string;
  readonly workingDir: string;
  readonly release: string;
  readonly grace: string;
  readonly restart: WorkloadSettings['restart'];
}

const POLICIES: readonly WorkloadSettings['restart'][] = ['always', 'on-failure', 'no'];

export function ProgramForm({ container, settings, onChanged }: OfWorkload) {
  const before = draftOf(settings);
  // Only what was typed is kept: what is saved meanwhile, here or elsewhere, takes nothing of it away.
  const [typed, setTyped] = useState<Partial<ProgramDraft>>({});
  const draft = { ...before, ...typed };
  const change = (part: Partial<ProgramDraft>) => setTyped({ ...typed, ...part });
  const [command, entrypoint, release] = [draft.command, draft.entrypoint, draft.release].map(wordsOf);
  const body = changeOf(before, draft);
  const restarts = [body.command, body.entrypoint, body.working_dir].some((one) => one !== undefined);
  const deed = useUpdate(container, body, onChanged);
  const isOpen = [command, entrypoint, release].includes(undefined);
  const reason = isOpen ? t.workload.openQuote : Object.keys(body).length === 0 ? t.settings.unchanged : undefined;
  const wrong = (field: string, words: readonly string[] | undefined) =>
    words === undefined ? t.workload.openQuote : fieldError(deed.error, field);
  return (
    <Panel title={t.workload.program}>
      <UpdateForm container={container} body={body} deed={deed} reason={reason}>
        <TextField
          label={t.workload.command}
          hint={t.workload.commandHint}
          error={wrong('command', command)}
          rows={2}
          value={draft.command}
          onInput={(to) => change({ command: to })}
        />
        <TextField
          label={t.workload.entrypoint}
          hint={t.workload.entrypointHint}
          error={wrong('entrypoint', entrypoint)}
          rows={2}
          value={draft.entrypoint}
          onInput={(to) => change({ entrypoint: to })}
        />
        <TextField
          label={t.workload.folder}
          hint={t.workload.folderHint}
          error={fieldError(deed.error, 'working_dir')}
          value={draft.workingDir}
          onInput={(to) => change({ workingDir: to })}
          attributes={{ autocomplete: 'off', maxLength: 1024 }}
        />
        <TextField
          label={t.workload.release}
          hint={t.workload.releaseHint}
          error={wrong('release', release)}
          rows={2}
          value={draft.release}
          onInput={(to) => change({ release: to })}
        />
        <div class="inline">
          <TextField
            label={t.workload.grace}
            hint={t.workload.graceHint}
            error={fieldError(deed.error, 'stop_grace')}
            value={draft.grace}
            onInput={(to) => change({ grace: to })}
            attributes={{ inputMode: 'numeric', required: true, maxLength: 3, autocomplete: 'off' }}
          />
          <SelectField
            label={t.workload.restart}
            value={draft.restart}
            choices={POLICIES.map((one) => [one, t.workload.policies[one]])}
            onChange={(to) => change({ restart: POLICIES.find((one) => one === to) ?? draft.restart })}
          />
        </div>
        {restarts && container.status === 'running' && <Note tone="warn">{t.storage.restartNote}</Note>}
      </UpdateForm>
    </Panel>
  );
}

function draftOf({ command, entrypoint, working_dir, release, stop_grace, restart }: WorkloadSettings): ProgramDraft {
  return {
    command: lineOf(command),
    entrypoint: lineOf(entrypoint),
    workingDir: working_dir ?? '',
    release: lineOf(release ?? null),
    grace: String(stop_grace),
    restart,
  };
}

/** What is sent: what is not as it was. Nothing typed leaves it to the image. */
function changeOf(before: ProgramDraft, draft: ProgramDraft): SettingsChange {
  const words = (field: 'command' | 'entrypoint' | 'release') => {
    if (draft[field].trim() === before[field]) return {};
    const list = wordsOf(draft[field]) ?? [];
    return { [field]: list.length === 0 ? null : list };
  };
  const folder = draft.workingDir.trim();
  return {
    ...words('command'),
    ...words('entrypoint'),
    ...words('release'),
    ...(folder === before.workingDir ? {} : { working_dir: folder === '' ? null : folder }),
    ...(draft.grace.trim() === before.grace ? {} : { stop_grace: Number(draft.grace) }),
    ...(draft.restart === before.restart ? {} : { restart: draft.restart }),
  };
}
