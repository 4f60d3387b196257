/** The private network of a container, and the name by which the other members find it. */
import type { Container } from '../../../client/index.ts';
import { curlLine, troupeLine } from '../../core/command.ts';
import { fieldError, useDeed } from '../../core/deed.ts';
import { useDraft } from '../../core/draft.ts';
import { call } from '../../core/platform.ts';
import { Button } from '../../parts/button.tsx';
import { AsCommand } from '../../parts/copy.tsx';
import { TextField } from '../../parts/field.tsx';
import { Failure } from '../../parts/note.tsx';
import { Panel } from '../../parts/panel.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';

/** An empty network is none, and an empty name is none. */
export function PrivateNetwork({ container }: { readonly container: Container }) {
  const { id, name, network = '', alias = '' } = container;
  const wanted = useDraft(network);
  const named = useDraft(alias);
  const [newNetwork, newAlias] = [wanted.value.trim(), named.value.trim()];
  const body = { network: newNetwork || null, alias: newAlias || null };
  const isSame = newNetwork === network && newAlias === alias;
  const deed = useDeed(async () => {
    await call('updateContainer', { params: { id }, body });
    for (const draft of [wanted, named]) draft.saved();
    toast(t.settings.saved);
  });
  const submit = (event: Event) => {
    event.preventDefault();
    if (!isSame) void deed.run();
  };
  const attributes = { maxLength: 63, autocomplete: 'off', autocapitalize: 'none' } as const;
  const words = [
    ...(newNetwork === '' ? ['--no-network'] : ['--network', newNetwork]),
    ...(newAlias === '' ? ['--no-alias'] : ['--alias', newAlias]),
  ];
  return (
    <Panel title={t.network.privateNetwork}>
      <form class="inside stack" onSubmit={submit}>
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
        {deed.error?.fields.length === 0 && <Failure error={deed.error} />}
        <div class="row">
          <Button type="submit" kind="main" busy={deed.isBusy} reason={isSame ? t.settings.unchanged : undefined}>
            {t.settings.save}
          </Button>
        </div>
        <AsCommand
          troupe={troupeLine('update', name, ...words)}
          curl={curlLine('PATCH', `/compute/containers/${id}`, body)}
        />
      </form>
    </Panel>
  );
}
