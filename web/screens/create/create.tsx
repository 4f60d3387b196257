/** A new container: all on one page, with the same as a command. */
import './create.css';
import { useState } from 'preact/hooks';
import { curlLine, troupeLine } from '../../core/command.ts';
import { fieldError, useDeed } from '../../core/deed.ts';
import { egressWord } from '../../core/egress.ts';
import { call, client } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import { go } from '../../core/router.ts';
import { SIZES } from '../../core/sizes.ts';
import { offer } from '../../live/facts.ts';
import { containers } from '../../live/live.ts';
import { Button, LinkButton } from '../../parts/button.tsx';
import { AsCommand } from '../../parts/copy.tsx';
import { EgressFields } from '../../parts/egress-fields.tsx';
import { Check, RadioCards, SelectField, TextField } from '../../parts/field.tsx';
import { Form } from '../../parts/form.tsx';
import { Failure } from '../../parts/note.tsx';
import { Page } from '../../parts/page.tsx';
import { useReservedNames } from '../../parts/reserved-names.ts';
import { Summary } from '../../parts/summary.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';
import { bodyOf, type CreateDraft, MEMORIES, newDraft, pathsIn, STORAGES } from './draft.ts';
import { ImageField } from './image.tsx';
import { KeyField } from './keys.tsx';
import { sizeText } from './size.ts';

/** The sentence that says what is missing. */
const WHY = 'create-why';
const MARKED = [
  'name',
  'image',
  'instance_type',
  'memory_mb',
  'storage_gb',
  'ssh_key_ids',
  'public_key',
  'mount_paths',
  'address_name',
  'egress',
];
const NAME_ATTRIBUTES = { maxLength: 40, autocomplete: 'off', autocapitalize: 'none' } as const;

export function Create() {
  const [draft, setDraft] = useState<CreateDraft>(newDraft);
  const change = (part: Partial<CreateDraft>) => setDraft((before) => ({ ...before, ...part }));
  const keys = useLoaded(async (signal) => {
    const { ssh_keys } = await client.call('listSshKeys', undefined, { signal });
    const [first] = ssh_keys;
    if (first !== undefined) change({ keyIds: [first.id] });
    return ssh_keys;
  });
  const deed = useDeed(async () => {
    const keyIds = await withPastedKey(draft);
    if (keyIds !== draft.keyIds) change({ keyIds, pasted: '' });
    const made = await call('createContainer', { body: bodyOf(draft, keyIds) });
    toast(t.create.made(made.name));
    go(`/containers/${made.id}`);
  });
  const most = offer.value?.limits.containers ?? Number.POSITIVE_INFINITY;
  const used = containers.value?.length ?? 0;
  const isFull = used >= most;
  const hasKey = draft.keyIds.length > 0 || draft.pasted.trim() !== '';
  const reason = isFull ? t.create.full(used, most) : hasKey ? undefined : t.create.noKey;
  return (
    <Page title={t.create.title} up={[t.shell.containers, '/containers']} narrow>
      <Form class="form" deed={deed} reason={reason}>
        <TextField
          label={t.create.name}
          hint={t.create.nameHint}
          error={fieldError(deed.error, 'name')}
          value={draft.name}
          onInput={(name) => change({ name })}
          attributes={{ required: true, maxLength: 63, autocomplete: 'off', autofocus: true }}
        />
        <ImageField
          value={draft.image}
          onChange={(image) => change({ image })}
          hint={t.create.imageHint}
          error={fieldError(deed.error, 'image')}
        />
        <RadioCards
          label={t.create.size}
          value={draft.size}
          error={fieldError(deed.error, 'instance_type')}
          choices={SIZES.map((size) => [size.type, size.type, sizeText(size)])}
          onChange={(size) => change({ size: SIZES.find(({ type }) => type === size)?.type ?? draft.size })}
        />
        <Amounts draft={draft} change={change} error={deed.error} />
        <KeyField
          known={keys}
          draft={draft}
          change={change}
          error={fieldError(deed.error, 'ssh_key_ids', 'public_key')}
        />
        <Check label={t.create.ssh} hint={t.create.sshHint} checked={draft.ssh} onChange={(ssh) => change({ ssh })} />
        <More draft={draft} change={change} error={deed.error} />
        {!isMarked(deed.error) && <Failure error={deed.error} />}
        <div class="ends">
          <Button type="submit" kind="main" busy={deed.isBusy} reason={reason} describedBy={reason && WHY}>
            {t.create.submit}
          </Button>
          <LinkButton kind="bare" href="/containers">
            {t.dialog.cancel}
          </LinkButton>
          {reason !== undefined && (
            <span class="reason" id={WHY}>
              {reason}
            </span>
          )}
        </div>
        <AsCommand troupe={lineOf(draft)} curl={curlLine('POST', '/compute/containers', bodyOf(draft, draft.keyIds))} />
      </Form>
    </Page>
  );
}

/** Whether what was refused is said where it was filled in. */
function isMarked(error: Parameters<typeof fieldError>[0]): boolean {
  return fieldError(error, ...MARKED) !== undefined;
}

/** The chosen keys, and the pasted one, which is added to the account first. */
async function withPastedKey({ keyIds, pasted }: CreateDraft): Promise<readonly number[]> {
  const text = pasted.trim();
  if (text === '') return keyIds;
  const comment = text.split(/\s+/).slice(2).join(' ').slice(0, 64);
  const { id } = await call('createSshKey', { body: { name: comment || t.create.keyName, public_key: text } });
  return [...keyIds, id];
}

interface PartProps {
  readonly draft: CreateDraft;
  readonly change: (part: Partial<CreateDraft>) => void;
}

function Amounts({ draft, change, error }: PartProps & { readonly error: Parameters<typeof fieldError>[0] }) {
  return (
    <div class="two">
      <SelectField
        label={t.create.memory}
        value={String(draft.memoryMb)}
        error={fieldError(error, 'memory_mb')}
        choices={MEMORIES.map((mb) => [String(mb), t.create.mb(mb)])}
        onChange={(mb) => change({ memoryMb: Number(mb) })}
      />
      <SelectField
        label={t.create.storage}
        value={String(draft.storageGb)}
        error={fieldError(error, 'storage_gb')}
        choices={STORAGES.map((gb) => [String(gb), t.create.gb(gb)])}
        onChange={(gb) => change({ storageGb: Number(gb) })}
      />
    </div>
  );
}

function More({ draft, change, error }: PartProps & { readonly error: Parameters<typeof fieldError>[0] }) {
  const [ofMounts, ofName] = [fieldError(error, 'mount_paths'), fieldError(error, 'address_name')];
  const reserved = useReservedNames();
  const egress = fieldError(error, 'egress');
  const isOpen = [ofMounts, ofName, egress].some((each) => each !== undefined);
  return (
    <details class="more" open={isOpen}>
      <Summary>{t.create.more}</Summary>
      <div class="stack">
        <TextField
          label={t.create.mounts}
          hint={t.create.mountsOrNone}
          error={ofMounts}
          rows={3}
          value={draft.mounts}
          onInput={(mounts) => change({ mounts })}
        />
        <TextField
          label={t.network.addressNameField}
          hint={[t.create.addressNameHint, reserved].join(' ').trim()}
          error={ofName}
          value={draft.addressName}
          onInput={(addressName) => change({ addressName })}
          attributes={NAME_ATTRIBUTES}
        />
        <SelectField
          label={t.create.pull}
          value={draft.pull}
          choices={[
            ['IfNotPresent', t.create.pullMissing],
            ['Always', t.create.pullAlways],
          ]}
          onChange={(pull) => change({ pull: pull === 'Always' ? 'Always' : 'IfNotPresent' })}
        />
        <EgressFields
          choice={draft.egress}
          networks={draft.networks}
          error={egress}
          onChoice={(choice) => change({ egress: choice })}
          onNetworks={(networks) => change({ networks })}
        />
      </div>
    </details>
  );
}

function lineOf(draft: CreateDraft): string {
  const { name, image, size, memoryMb, storageGb, ssh, mounts, addressName, egress, networks } = draft;
  const kept = mounts.trim() === '' ? ['none'] : pathsIn(mounts);
  return troupeLine(
    'run',
    name.trim() || 'NAME',
    ...(image === '' ? [] : ['--image', image]),
    '--size',
    size,
    '--memory',
    String(memoryMb),
    '--storage',
    String(storageGb),
    ssh ? '--ssh' : undefined,
    ...(addressName.trim() === '' ? [] : ['--address', addressName.trim()]),
    ...(egress === 'any' ? [] : ['--egress', egressWord(egress, networks)]),
    ...(kept.join() === '/root' ? [] : kept.flatMap((path) => ['--mount', path])),
  );
}
