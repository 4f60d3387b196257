/** Which folders of a container stay over restarts. */
import { useState } from 'preact/hooks';
import type { Container } from '../../../client/index.ts';
import { curlLine } from '../../core/command.ts';
import { fieldError, useDeed } from '../../core/deed.ts';
import { useDraft } from '../../core/draft.ts';
import { bytesOf } from '../../core/format.ts';
import { call } from '../../core/platform.ts';
import type { ScreenProps } from '../../core/router.ts';
import { Button } from '../../parts/button.tsx';
import { AsCommand } from '../../parts/copy.tsx';
import { Check, TextField } from '../../parts/field.tsx';
import { FormFailure } from '../../parts/form.tsx';
import { Note } from '../../parts/note.tsx';
import { Panel } from '../../parts/panel.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';
import { pathsIn } from '../create/draft.ts';
import { ContainerFrame } from './frame.tsx';

const GIB = 1024 ** 3;

export function Storage({ params: { id = '' } }: ScreenProps) {
  return (
    <ContainerFrame id={id}>
      {(container) => (
        <div class="stack" key={container.id}>
          <Panel title={t.storage.used}>
            <div class="inside stack tight">
              <p class="num">{bytesOf(container.storage_used_gb * GIB, container.storage_gb * GIB)}</p>
              <div class="bar" aria-hidden="true">
                <i style={{ '--share': percentOf(container) }} />
              </div>
            </div>
          </Panel>
          <KeptPaths container={container} />
        </div>
      )}
    </ContainerFrame>
  );
}

function percentOf({ storage_used_gb, storage_gb }: Container): string {
  return `${Math.min(100, (storage_used_gb / storage_gb) * 100)}%`;
}

function KeptPaths({ container: { id, status, mount_paths = [] } }: { readonly container: Container }) {
  const draft = useDraft(mount_paths.join('\n'));
  const [discard, setDiscard] = useState(false);
  const paths = pathsIn(draft.value);
  const body = { mount_paths: paths, discard };
  const deed = useDeed(async () => {
    const { restarted } = await call('setMounts', { params: { id }, body });
    draft.saved();
    setDiscard(false);
    toast(restarted ? t.storage.restarts : t.storage.saved);
  });
  const added = paths.filter((path) => !mount_paths.includes(path));
  const gone = mount_paths.filter((path) => !paths.includes(path));
  const isSame = added.length === 0 && gone.length === 0;
  return (
    <Panel title={t.create.mounts}>
      <div class="inside stack">
        <TextField
          label={t.storage.paths}
          hint={t.create.mountsHint}
          error={fieldError(deed.error, 'mount_paths')}
          rows={5}
          value={draft.value}
          onInput={draft.set}
        />
        {!isSame && (
          <ul class="mono small" aria-label={t.storage.changes}>
            {added.map((path) => (
              <li key={path}>+ {path}</li>
            ))}
            {gone.map((path) => (
              <li key={path}>− {path}</li>
            ))}
          </ul>
        )}
        {!isSame && status === 'running' && <Note tone="warn">{t.storage.restartNote}</Note>}
        {deed.error?.code === 'discards_files' && (
          <Check label={t.storage.discard} checked={discard} onChange={setDiscard} />
        )}
        <FormFailure of={deed} />
        <div class="row">
          <Button
            kind="main"
            onClick={() => void deed.run()}
            busy={deed.isBusy}
            reason={isSame ? t.settings.unchanged : undefined}
          >
            {t.settings.save}
          </Button>
        </div>
        <AsCommand curl={curlLine('PUT', `/compute/containers/${id}/mounts`, body)} />
      </div>
    </Panel>
  );
}
