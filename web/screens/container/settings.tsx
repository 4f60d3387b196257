/** What can be changed about a container, and its end. */
import { useState } from 'preact/hooks';
import type { Container } from '../../../client/index.ts';
import { fieldError } from '../../core/deed.ts';
import { useDraft } from '../../core/draft.ts';
import type { ScreenProps } from '../../core/router.ts';
import { Button } from '../../parts/button.tsx';
import { TextField } from '../../parts/field.tsx';
import { Panel } from '../../parts/panel.tsx';
import { t } from '../../text/text.ts';
import { DeleteContainer } from './deeds.tsx';
import { EgressForm } from './egress.tsx';
import { ExpiryForm } from './expiry.tsx';
import { ContainerFrame } from './frame.tsx';
import { ImagePanel, SizeForm } from './machine.tsx';
import { UpdateForm, useUpdate } from './update-form.tsx';
import { Workload } from './workload/workload.tsx';

export function ContainerSettings({ params: { id = '' } }: ScreenProps) {
  return (
    <ContainerFrame id={id}>
      {(container) => (
        <div class="stack" key={container.id}>
          <NameForm container={container} />
          <SizeForm container={container} />
          <ImagePanel container={container} />
          <Workload container={container} />
          <EgressForm container={container} />
          <ExpiryForm container={container} />
          <Ending container={container} />
        </div>
      )}
    </ContainerFrame>
  );
}

interface OfContainer {
  readonly container: Container;
}

function NameForm({ container }: OfContainer) {
  const { name } = container;
  const draft = useDraft(name);
  const body = { name: draft.value.trim() };
  const deed = useUpdate(container, body, draft.saved);
  const reason = body.name === name ? t.settings.unchanged : undefined;
  return (
    <Panel title={t.create.name}>
      <UpdateForm container={container} body={body} deed={deed} reason={reason}>
        <TextField
          label={t.create.name}
          error={fieldError(deed.error, 'name')}
          value={draft.value}
          onInput={draft.set}
          attributes={{ required: true, maxLength: 63, autocomplete: 'off' }}
        />
      </UpdateForm>
    </Panel>
  );
}

function Ending({ container }: OfContainer) {
  const [isDeleting, setDeleting] = useState(false);
  return (
    <Panel title={t.settings.end}>
      <div class="inside stack tight">
        <p class="dim small">{t.container.deleteLead}</p>
        <div class="row">
          <Button kind="danger" onClick={() => setDeleting(true)}>
            {t.container.deleteVerb}
          </Button>
        </div>
      </div>
      {isDeleting && <DeleteContainer container={container} onClose={() => setDeleting(false)} />}
    </Panel>
  );
}
