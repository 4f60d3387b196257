/** Variables of a container, and the names of its secrets, whose values nobody is shown. */
import { Pencil, Trash } from 'lucide';
import { useRef, useState } from 'preact/hooks';
import { curlLine, troupeLine } from '../../../core/command.ts';
import { fieldError, useDeed } from '../../../core/deed.ts';
import { call } from '../../../core/platform.ts';
import { Button } from '../../../parts/button.tsx';
import { AsCommand } from '../../../parts/copy.tsx';
import { Confirm } from '../../../parts/dialog.tsx';
import { Check, TextField } from '../../../parts/field.tsx';
import { FormFailure } from '../../../parts/form.tsx';
import { Note } from '../../../parts/note.tsx';
import { Panel } from '../../../parts/panel.tsx';
import { RowOf, Rows } from '../../../parts/rows.tsx';
import { toast } from '../../../parts/toast.tsx';
import { t } from '../../../text/text.ts';
import type { SettingsChange } from '../update-form.tsx';
import type { OfWorkload } from './of-workload.ts';

/** A line of the list. */
interface Variable {
  readonly name: string;
  /** Undefined: a secret. */
  readonly value: string | undefined;
}

/** As it is typed. */
interface VariableDraft {
  readonly name: string;
  readonly value: string;
  readonly isSecret: boolean;
}

/** Characters of a value in the list: it may have 32 KiB. */
const MOST_SHOWN = 200;

const EMPTY: VariableDraft = { name: '', value: '', isSecret: false };

export function Variables({ container, settings, onChanged }: OfWorkload) {
  const [draft, setDraft] = useState(EMPTY);
  const [leaving, setLeaving] = useState<Variable>();
  const form = useRef<HTMLFormElement>(null);
  const all: readonly Variable[] = [
    ...Object.entries(settings.env).map(([name, value]) => ({ name, value })),
    ...settings.secrets.map((name) => ({ name, value: undefined })),
  ].sort((a, b) => a.name.localeCompare(b.name));
  const edit = ({ name, value }: Variable) => {
    setDraft({ name, value: value ?? '', isSecret: value === undefined });
    form.current?.querySelector('textarea')?.focus();
  };
  return (
    <Panel title={t.workload.variables}>
      {all.length === 0 && <p class="inside faint small">{t.workload.none}</p>}
      <Rows>
        {all.map((variable) => (
          <RowOf
            key={variable.name}
            name={<code>{variable.name}</code>}
            about={[variable.value === undefined ? t.workload.isSecret : <code>{beginOf(variable.value)}</code>]}
            actions={
              <>
                <Button
                  kind="bare"
                  icon={Pencil}
                  label={t.workload.edit(variable.name)}
                  onClick={() => edit(variable)}
                />
                <Button
                  kind="bare"
                  icon={Trash}
                  label={t.workload.remove(variable.name)}
                  onClick={() => setLeaving(variable)}
                />
              </>
            }
          />
        ))}
      </Rows>
      <div class="foot">
        <form ref={form}>
          <VariableFields
            container={container}
            settings={settings}
            draft={draft}
            onChange={setDraft}
            onChanged={onChanged}
          />
        </form>
      </div>
      {leaving !== undefined && (
        <RemoveVariable
          container={container}
          variable={leaving}
          onClose={() => setLeaving(undefined)}
          onChanged={onChanged}
        />
      )}
    </Panel>
  );
}

function beginOf(value: string): string {
  return value.length > MOST_SHOWN ? `${value.slice(0, MOST_SHOWN)}…` : value;
}

interface VariableFieldsProps extends OfWorkload {
  readonly draft: VariableDraft;
  readonly onChange: (draft: VariableDraft) => void;
}

function VariableFields({ container, settings, draft, onChange, onChanged }: VariableFieldsProps) {
  const { id, name: owner, status } = container;
  const name = draft.name.trim();
  const { value, isSecret } = draft;
  const body = changeOf(settings, { name, value, isSecret });
  const deed = useDeed(async () => {
    await call('updateContainer', { params: { id }, body });
    toast(t.workload.set(name));
    onChange(EMPTY);
    onChanged();
  });
  const change = (part: Partial<VariableDraft>) => onChange({ ...draft, ...part });
  // The form cannot show what a secret is now: it must not send that it is empty from then on.
  const isMissing = name !== '' && value === '' && (isSecret || settings.secrets.includes(name));
  const reason = name === '' ? t.workload.nameFirst : isMissing ? t.workload.valueFirst : undefined;
  const run = (event: Event) => {
    event.preventDefault();
    if (reason === undefined) void deed.run();
  };
  const shown = name === '' ? 'NAME' : name;
  return (
    <div class="stack">
      <TextField
        label={t.workload.name}
        error={fieldError(deed.error, 'env', 'secrets')}
        value={draft.name}
        onInput={(to) => change({ name: to })}
        attributes={{ autocomplete: 'off', maxLength: 128 }}
      />
      <TextField
        label={t.workload.value}
        error={isMissing ? t.workload.valueFirst : undefined}
        rows={2}
        value={value}
        onInput={(to) => change({ value: to })}
      />
      <Check
        label={t.workload.secret}
        hint={t.workload.secretHint}
        checked={isSecret}
        onChange={(to) => change({ isSecret: to })}
      />
      {name !== '' && status === 'running' && <Note tone="warn">{t.storage.restartNote}</Note>}
      <FormFailure of={deed} />
      <div class="row">
        <Button type="submit" kind="main" busy={deed.isBusy} reason={reason} onClick={run}>
          {t.workload.setVerb}
        </Button>
      </div>
      <AsCommand
        troupe={
          isSecret ? troupeLine('env', 'secret', owner, shown) : troupeLine('env', 'set', owner, `${shown}=${value}`)
        }
        curl={curlLine(
          'PATCH',
          `/compute/containers/${id}`,
          changeOf(settings, { name: shown, value: isSecret ? '...' : value, isSecret }),
        )}
      />
    </div>
  );
}

/** What is sent. A name is in one of the two only: it leaves the other. */
function changeOf(settings: OfWorkload['settings'], { name, value, isSecret }: VariableDraft): SettingsChange {
  if (isSecret)
    return { ...(Object.hasOwn(settings.env, name) ? { env: { [name]: null } } : {}), secrets: { [name]: value } };
  return { env: { [name]: value }, ...(settings.secrets.includes(name) ? { secrets: { [name]: null } } : {}) };
}

interface RemoveVariableProps extends Pick<OfWorkload, 'container' | 'onChanged'> {
  readonly variable: Variable;
  readonly onClose: () => void;
}

function RemoveVariable({ container, variable, onClose, onChanged }: RemoveVariableProps) {
  const { id, name: owner, status } = container;
  const { name, value } = variable;
  const deed = useDeed(async () => {
    await call('updateContainer', {
      params: { id },
      body: value === undefined ? { secrets: { [name]: null } } : { env: { [name]: null } },
    });
    toast(t.workload.removed(name));
    onChanged();
  });
  return (
    <Confirm title={t.workload.removeTitle(name)} verb={t.workload.removeVerb} deed={deed} onClose={onClose}>
      {status === 'running' && <p class="dim">{t.storage.restartNote}</p>}
      <AsCommand troupe={troupeLine('env', 'rm', owner, name)} />
    </Confirm>
  );
}
