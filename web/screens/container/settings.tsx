/** What can be changed about a container, and its end. */
import { useState } from 'preact/hooks';
import type { Container } from '../../../client/index.ts';
import { curlLine } from '../../core/command.ts';
import { fieldError, useDeed } from '../../core/deed.ts';
import { useDraft } from '../../core/draft.ts';
import { call } from '../../core/platform.ts';
import type { ScreenProps } from '../../core/router.ts';
import { Button } from '../../parts/button.tsx';
import { AsCommand } from '../../parts/copy.tsx';
import { TextField } from '../../parts/field.tsx';
import { Failure } from '../../parts/note.tsx';
import { Panel } from '../../parts/panel.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';
import { DeleteContainer } from './deeds.tsx';
import { ContainerFrame } from './frame.tsx';
import { ImagePanel, SizeForm } from './machine.tsx';
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
          <Ending container={container} />
        </div>
      )}
    </ContainerFrame>
  );
}

interface OfContainer {
  readonly container: Container;
}

function NameForm({ container: { id, name } }: OfContainer) {
  const draft = useDraft(name);
  const body = { name: draft.value.trim() };
  const deed = useDeed(async () => {
    await call('updateContainer', { params: { id }, body });
    draft.saved();
    toast(t.settings.saved);
  });
  const submit = (event: Event) => {
    event.preventDefault();
    if (body.name !== name) void deed.run();
  };
  return (
    <Panel title={t.create.name}>
      <form class="inside stack" onSubmit={submit}>
        <TextField
          label={t.create.name}
          error={fieldError(deed.error, 'name')}
          value={draft.value}
          onInput={draft.set}
          attributes={{ required: true, maxLength: 63, autocomplete: 'off' }}
        />
        {deed.error?.fields.length === 0 && <Failure error={deed.error} />}
        <div class="row">
          <Button
            type="submit"
            kind="main"
            busy={deed.isBusy}
            reason={body.name === name ? t.settings.unchanged : undefined}
          >
            {t.settings.save}
          </Button>
        </div>
        <AsCommand curl={curlLine('PATCH', `/compute/containers/${id}`, body)} />
      </form>
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
