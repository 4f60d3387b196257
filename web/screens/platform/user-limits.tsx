/** How many containers and SSH keys one user may have, where that is not what all may have. */
import { useState } from 'preact/hooks';
import type { CallReply } from '../../../client/index.ts';
import { curlLine, troupeLine } from '../../core/command.ts';
import { fieldError, useDeed } from '../../core/deed.ts';
import { call } from '../../core/platform.ts';
import { AsCommand } from '../../parts/copy.tsx';
import { TextField } from '../../parts/field.tsx';
import { FormDialog, FormFailure } from '../../parts/form.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';

interface UserLimitsProps {
  readonly user: Pick<CallReply<'adminListUsers'>[number], 'id' | 'username' | 'limits'>;
  readonly onClose: () => void;
}

const ATTRIBUTES = { inputMode: 'numeric', maxLength: 4, autocomplete: 'off' } as const;

/** What was typed: null for nothing, which is as all; undefined for what is no number. */
function limitIn(text: string): number | null | undefined {
  if (text.trim() === '') return null;
  return /^[0-9]{1,4}$/.test(text.trim()) ? Number(text.trim()) : undefined;
}

export function UserLimits({ user: { id, username, limits: now }, onClose }: UserLimitsProps) {
  const [containers, setContainers] = useState(String(now?.containers ?? ''));
  const [keys, setKeys] = useState(String(now?.ssh_keys ?? ''));
  const [isTried, setTried] = useState(false);
  const [ofContainers, ofKeys] = [limitIn(containers), limitIn(keys)];
  const limits = { containers: ofContainers ?? null, ssh_keys: ofKeys ?? null };
  const deed = useDeed(async () => {
    setTried(true);
    if (ofContainers === undefined || ofKeys === undefined) return;
    await call('adminChangeUser', { params: { id }, body: { limits } });
    toast(t.users.limitsSaved(username));
    onClose();
  });
  const wrong = (limit: number | null | undefined) =>
    isTried && limit === undefined ? t.users.limitsNumber : undefined;
  const word = (limit: number | null) => (limit === null ? 'default' : String(limit));
  return (
    <FormDialog title={t.users.limitsTitle(username)} verb={t.users.imagesVerb} deed={deed} onClose={onClose}>
      <p class="dim">{t.users.limitsLead}</p>
      <TextField
        label={t.users.limitsContainers}
        hint={t.users.limitsHint}
        error={wrong(ofContainers) ?? fieldError(deed.error, 'limits.containers')}
        value={containers}
        onInput={setContainers}
        attributes={ATTRIBUTES}
      />
      <TextField
        label={t.users.limitsKeys}
        hint={t.users.limitsHint}
        error={wrong(ofKeys) ?? fieldError(deed.error, 'limits.ssh_keys')}
        value={keys}
        onInput={setKeys}
        attributes={ATTRIBUTES}
      />
      <FormFailure of={deed} />
      <AsCommand
        troupe={troupeLine(
          ...['users', 'limits', username],
          ...['--containers', word(limits.containers), '--ssh-keys', word(limits.ssh_keys)],
        )}
        curl={curlLine('PATCH', `/api/admin/users/${id}`, { limits })}
      />
    </FormDialog>
  );
}
