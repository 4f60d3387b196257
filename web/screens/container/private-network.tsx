/** The private network of a container, and the name by which the other members find it. */
import type { Container } from '../../../client/index.ts';
import { troupeLine } from '../../core/command.ts';
import { fieldError } from '../../core/deed.ts';
import { useDraft } from '../../core/draft.ts';
import { TextField } from '../../parts/field.tsx';
import { Panel } from '../../parts/panel.tsx';
import { t } from '../../text/text.ts';
import { UpdateForm, useUpdate } from './update-form.tsx';

/** An empty network is none, and an empty name is none. */
export function PrivateNetwork({ container }: { readonly container: Container }) {
  const { name, network = '', alias = '' } = container;
  const wanted = useDraft(network);
  const named = useDraft(alias);
  const [newNetwork, newAlias] = [wanted.value.trim(), named.value.trim()];
  const body = { network: newNetwork || null, alias: newAlias || null };
  const isSame = newNetwork === network && newAlias === alias;
  const deed = useUpdate(container, body, () => {
    for (const draft of [wanted, named]) draft.saved();
  });
  const attributes = { maxLength: 63, autocomplete: 'off', autocapitalize: 'none' } as const;
  const words = [
    ...(newNetwork === '' ? ['--no-network'] : ['--network', newNetwork]),
    ...(newAlias === '' ? ['--no-alias'] : ['--alias', newAlias]),
  ];
  return (
    <Panel title={t.network.privateNetwork}>
      <UpdateForm
        container={container}
        body={body}
        deed={deed}
        reason={isSame ? t.settings.unchanged : undefined}
        troupe={troupeLine('update', name, ...words)}
      >
        <div class="inline">
          <TextField
            label={t.network.networkName}
            hint={t.network.networkHint}
            error={fieldError(deed.error, 'network')}
            value={wanted.value}
            onInput={wanted.set}
            attributes={attributes}
          />
          <TextField
            label={t.network.alias}
            hint={t.network.aliasHint}
            error={fieldError(deed.error, 'alias')}
            value={named.value}
            onInput={named.set}
            attributes={attributes}
          />
        </div>
      </UpdateForm>
    </Panel>
  );
}
