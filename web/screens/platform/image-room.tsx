/** How much the images of one user may hold, where that is not what all may have. */
import { useState } from 'preact/hooks';
import { curlLine, troupeLine } from '../../core/command.ts';
import { fieldError, useDeed } from '../../core/deed.ts';
import { call } from '../../core/platform.ts';
import { AsCommand } from '../../parts/copy.tsx';
import { Check, TextField } from '../../parts/field.tsx';
import { FormDialog, FormFailure } from '../../parts/form.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';

interface ImageRoomProps {
  readonly user: { readonly id: string; readonly username: string; readonly registry_limit_mb: number | null };
  readonly onClose: () => void;
}

export function ImageRoom({ user: { id, username, registry_limit_mb: now }, onClose }: ImageRoomProps) {
  const [isAsAll, setAsAll] = useState(now === null);
  const [typed, setTyped] = useState(now === null ? '' : String(now));
  const [isTried, setTried] = useState(false);
  const given = /^[0-9]{1,9}$/.test(typed.trim()) ? Number(typed.trim()) : undefined;
  const limit = isAsAll ? null : given;
  const deed = useDeed(async () => {
    setTried(true);
    if (limit === undefined) return;
    await call('adminChangeUser', { params: { id }, body: { registry_limit_mb: limit } });
    toast(t.users.imagesSaved(username));
    onClose();
  });
  const wrong = isTried && limit === undefined ? t.users.imagesNumber : undefined;
  return (
    <FormDialog title={t.users.imagesTitle(username)} verb={t.users.imagesVerb} deed={deed} onClose={onClose}>
      <p class="dim">{t.users.imagesLead}</p>
      <Check label={t.users.imagesAsAll} checked={isAsAll} onChange={setAsAll} />
      {!isAsAll && (
        <TextField
          label={t.users.imagesMb}
          hint={t.users.imagesHint}
          error={wrong ?? fieldError(deed.error, 'registry_limit_mb')}
          value={typed}
          onInput={setTyped}
          attributes={{ inputMode: 'numeric', maxLength: 9, autocomplete: 'off' }}
        />
      )}
      <FormFailure of={deed} />
      <AsCommand
        troupe={troupeLine('users', 'registry-limit', username, isAsAll ? 'default' : typed.trim() || 'MB')}
        curl={curlLine('PATCH', `/api/admin/users/${id}`, { registry_limit_mb: limit ?? null })}
      />
    </FormDialog>
  );
}
