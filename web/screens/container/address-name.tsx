/** The readable address of a container: a name in the place of its id in its hostname. */
import type { Container } from '../../../client/index.ts';
import { troupeLine } from '../../core/command.ts';
import { fieldError } from '../../core/deed.ts';
import { useDraft } from '../../core/draft.ts';
import { TextField } from '../../parts/field.tsx';
import { Panel } from '../../parts/panel.tsx';
import { useReservedNames } from '../../parts/reserved-names.ts';
import { t } from '../../text/text.ts';
import { UpdateForm, useUpdate } from './update-form.tsx';

const ATTRIBUTES = { maxLength: 40, autocomplete: 'off', autocapitalize: 'none' } as const;

/** An empty name is none. */
export function AddressNameForm({ container }: { readonly container: Container }) {
  const { name, hostname, address_name = '' } = container;
  const draft = useDraft(address_name);
  const reserved = useReservedNames([address_name]);
  const wanted = draft.value.trim();
  const body = { address_name: wanted || null };
  const deed = useUpdate(container, body, draft.saved);
  return (
    <Panel title={t.network.addressName}>
      <UpdateForm
        container={container}
        body={body}
        deed={deed}
        reason={wanted === address_name ? t.settings.unchanged : undefined}
        troupe={troupeLine('update', name, '--address', wanted || 'none')}
      >
        <TextField
          label={t.network.addressNameField}
          hint={[t.network.addressNameHint(hostname.slice(hostname.indexOf('.'))), reserved].join(' ').trim()}
          error={fieldError(deed.error, 'address_name')}
          value={draft.value}
          onInput={draft.set}
          attributes={ATTRIBUTES}
        />
      </UpdateForm>
    </Panel>
  );
}
