/** When a container expires: it is stopped then, and deleted a day later. */
import type { Container } from '../../../client/index.ts';
import { troupeLine } from '../../core/command.ts';
import { fieldError } from '../../core/deed.ts';
import { useDraft } from '../../core/draft.ts';
import { minuteOf } from '../../core/format.ts';
import { TextField } from '../../parts/field.tsx';
import { Panel } from '../../parts/panel.tsx';
import { t } from '../../text/text.ts';
import { UpdateForm, useUpdate } from './update-form.tsx';

/** An empty field is never. */
export function ExpiryForm({ container }: { readonly container: Container }) {
  const { name, expires_at } = container;
  const now = expires_at === undefined ? '' : minuteOf(Date.parse(expires_at));
  const draft = useDraft(now);
  const wanted = draft.value === '' ? null : new Date(draft.value).toISOString();
  const body = { expires_at: wanted };
  const deed = useUpdate(container, body, draft.saved);
  return (
    <Panel title={t.settings.expiry}>
      <UpdateForm
        container={container}
        body={body}
        deed={deed}
        reason={draft.value === now ? t.settings.unchanged : undefined}
        troupe={troupeLine('update', name, '--expires', wanted ?? 'never')}
      >
        <TextField
          label={t.settings.expiresAt}
          hint={t.settings.expiryHint}
          error={fieldError(deed.error, 'expires_at')}
          type="datetime-local"
          value={draft.value}
          onInput={draft.set}
        />
      </UpdateForm>
    </Panel>
  );
}
