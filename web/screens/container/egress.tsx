/** What a container may reach: everything, nothing, or some networks. */
import type { Container } from '../../../client/index.ts';
import { troupeLine } from '../../core/command.ts';
import { fieldError } from '../../core/deed.ts';
import { useDraft } from '../../core/draft.ts';
import { type EgressChoice, egressOf, egressWord } from '../../core/egress.ts';
import { EgressFields } from '../../parts/egress-fields.tsx';
import { Panel } from '../../parts/panel.tsx';
import { t } from '../../text/text.ts';
import { UpdateForm, useUpdate } from './update-form.tsx';

export function EgressForm({ container }: { readonly container: Container }) {
  const { name, egress = 'any' } = container;
  const choice = useDraft<EgressChoice>(typeof egress === 'string' ? egress : 'list');
  const networks = useDraft(typeof egress === 'string' ? '' : egress.join('\n'));
  const wanted = egressOf(choice.value, networks.value);
  const body = { egress: wanted };
  const deed = useUpdate(container, body, () => {
    choice.saved();
    networks.saved();
  });
  return (
    <Panel title={t.egress.title}>
      <UpdateForm
        container={container}
        body={body}
        deed={deed}
        reason={String(wanted) === String(egress) ? t.settings.unchanged : undefined}
        troupe={troupeLine('update', name, '--egress', egressWord(choice.value, networks.value))}
      >
        <EgressFields
          choice={choice.value}
          networks={networks.value}
          error={fieldError(deed.error, 'egress')}
          onChoice={choice.set}
          onNetworks={networks.set}
        />
      </UpdateForm>
    </Panel>
  );
}
