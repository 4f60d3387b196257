/** What a container is made of: its size, and its image. */
import { useState } from 'preact/hooks';
import { type Container, imageName } from '../../../client/index.ts';
import { troupeLine } from '../../core/command.ts';
import { fieldError, useDeed } from '../../core/deed.ts';
import { useDraft } from '../../core/draft.ts';
import { call } from '../../core/platform.ts';
import { SIZES } from '../../core/sizes.ts';
import { Check, SelectField, TextField } from '../../parts/field.tsx';
import { Failure, Note } from '../../parts/note.tsx';
import { Panel } from '../../parts/panel.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';
import { ImageField } from '../create/image.tsx';
import { sizeText } from '../create/size.ts';
import { type SettingsChange, UpdateForm, useUpdate } from './update-form.tsx';

interface OfMachine {
  readonly container: Container;
}

export function SizeForm({ container }: OfMachine) {
  const { name, instance_type, memory_mb, storage_gb } = container;
  const size = useDraft(instance_type);
  const memory = useDraft(String(memory_mb));
  const storage = useDraft(String(storage_gb));
  const [discard, setDiscard] = useState(false);
  const [memoryMb, storageGb] = [Number(memory.value), Number(storage.value)];
  const body: SettingsChange = {
    ...(size.value === instance_type ? {} : { instance_type: size.value }),
    ...(memoryMb === memory_mb ? {} : { memory_mb: memoryMb }),
    ...(storageGb === storage_gb ? {} : { storage_gb: storageGb }),
  };
  const reason = Object.keys(body).length === 0 ? t.settings.unchanged : undefined;
  const sent = discard ? { ...body, discard } : body;
  const deed = useUpdate(container, sent, () => {
    for (const draft of [size, memory, storage]) draft.saved();
    setDiscard(false);
  });
  // Only where the platform says that it is needed.
  const asksDiscard = deed.error?.code === 'discards_files' || discard;
  return (
    <Panel title={t.create.size}>
      <UpdateForm
        container={container}
        body={sent}
        deed={deed}
        reason={reason}
        troupe={troupeLine(
          ...['update', name, '--size', size.value],
          ...['--memory', `${memory.value}M`, '--storage', `${storage.value}G`],
        )}
      >
        <SelectField
          label={t.machine.processor}
          value={size.value}
          error={fieldError(deed.error, 'instance_type')}
          choices={SIZES.map((one) => [one.type, `${one.type}: ${sizeText(one)}`])}
          onChange={(to) => size.set(SIZES.find(({ type }) => type === to)?.type ?? size.value)}
        />
        <div class="inline">
          <TextField
            label={t.machine.memory}
            hint={t.machine.memoryHint}
            error={fieldError(deed.error, 'memory_mb')}
            value={memory.value}
            onInput={memory.set}
            attributes={{ inputMode: 'numeric', required: true, maxLength: 5, autocomplete: 'off' }}
          />
          <TextField
            label={t.machine.storage}
            hint={t.machine.storageHint}
            error={fieldError(deed.error, 'storage_gb')}
            value={storage.value}
            onInput={storage.set}
            attributes={{ inputMode: 'numeric', required: true, maxLength: 4, autocomplete: 'off' }}
          />
        </div>
        {asksDiscard && <Check label={t.machine.discard} checked={discard} onChange={setDiscard} />}
      </UpdateForm>
    </Panel>
  );
}

/** What follows once another image is there. */
function noteOfChange({ changes_without_pause, overlap }: Container): string {
  if (changes_without_pause !== true) return t.machine.imageNote;
  return overlap === true ? t.machine.imageOverlaps : t.machine.imageSucceeds;
}

export function ImagePanel({ container }: OfMachine) {
  const { id, name, image = '', next_image, status, status_reason, pull_policy } = container;
  const draft = useDraft(next_image ?? image);
  const wanted = draft.value.trim();
  const body: SettingsChange = { image: wanted === '' ? null : wanted };
  const change = useUpdate(container, body, draft.saved);
  const pull = useDeed(async (policy: Container['pull_policy']) => {
    await call('setPullPolicy', { params: { id }, body: { pull_policy: policy } });
    toast(t.settings.saved);
  });
  const overlap = useDeed(async (isWanted: boolean) => {
    await call('updateContainer', { params: { id }, body: { overlap: isWanted } });
    toast(t.settings.saved);
  });
  const isSame = wanted === (next_image ?? image);
  const reason = isSame ? t.settings.unchanged : undefined;
  return (
    <Panel title={t.container.image}>
      <UpdateForm
        container={container}
        body={body}
        deed={change}
        reason={reason}
        failure={change.error?.fields.some(({ path }) => path === 'image') !== true && <Failure error={change.error} />}
        troupe={troupeLine('update', name, '--image', wanted === '' ? 'default' : imageName(wanted))}
      >
        {next_image !== undefined && <Note tone="busy">{t.machine.waits(imageName(next_image), status_reason)}</Note>}
        {next_image === undefined && status === 'running' && status_reason !== undefined && (
          <Note tone="warn">{status_reason}</Note>
        )}
        <ImageField
          value={draft.value}
          onChange={draft.set}
          hint={t.machine.imageHint}
          error={fieldError(change.error, 'image')}
          now={next_image ?? image}
        />
        {!isSame && status === 'running' && <Note tone="warn">{noteOfChange(container)}</Note>}
      </UpdateForm>
      <div class="foot stack">
        <SelectField
          label={t.create.pull}
          hint={t.settings.pullHint}
          value={pull_policy}
          busy={pull.isBusy}
          choices={[
            ['IfNotPresent', t.create.pullMissing],
            ['Always', t.create.pullAlways],
          ]}
          onChange={(policy) => void pull.run(policy === 'Always' ? 'Always' : 'IfNotPresent')}
        />
        <Failure error={pull.error} />
        {container.mount_paths?.length !== 0 && (
          <Check
            label={t.machine.overlap}
            hint={t.machine.overlapHint}
            checked={container.overlap === true}
            onChange={(isWanted) => void overlap.run(isWanted)}
          />
        )}
        <Failure error={overlap.error} />
      </div>
    </Panel>
  );
}
