/** What is asked about service accounts. */
import { useState } from 'preact/hooks';
import { curlLine, troupeLine } from '../../core/command.ts';
import { fieldError, unlessGone, useDeed } from '../../core/deed.ts';
import { call } from '../../core/platform.ts';
import { personNow } from '../../core/session.ts';
import { AsCommand } from '../../parts/copy.tsx';
import { Confirm } from '../../parts/dialog.tsx';
import { TextField } from '../../parts/field.tsx';
import { FormDialog } from '../../parts/form.tsx';
import { Failure } from '../../parts/note.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';
import { RightsField } from './rights.tsx';
import { draftFrom, NO_RIGHTS, type ServiceAccountLine, scopesFrom } from './scopes.ts';

interface NewAccountProps {
  readonly onClose: () => void;
  readonly onMade: () => void;
}

export function NewAccount({ onClose, onMade }: NewAccountProps) {
  const [name, setName] = useState('');
  const [rights, setRights] = useState(NO_RIGHTS);
  const body = { name: name.trim(), scopes: scopesFrom(rights, personNow()?.userId ?? '') };
  const deed = useDeed(async () => {
    await call('createServiceAccount', { body });
    toast(t.accounts.added(body.name));
    onMade();
    onClose();
  });
  return (
    <FormDialog title={t.accounts.add} verb={t.accounts.add} deed={deed} onClose={onClose}>
      <TextField
        label={t.tokens.name}
        hint={t.accounts.nameHint}
        error={fieldError(deed.error, 'name')}
        value={name}
        onInput={setName}
        attributes={{ required: true, maxLength: 64, autocomplete: 'off', autofocus: true }}
      />
      <RightsField rights={rights} onChange={setRights} />
      {fieldError(deed.error, 'name') === undefined && <Failure error={deed.error} />}
      <AsCommand curl={curlLine('POST', '/api/service-accounts', body)} />
    </FormDialog>
  );
}

interface AccountQuestionProps {
  readonly account: ServiceAccountLine;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

export function ChangeRights({ account: { id, name, scopes: before }, onClose, onDone }: AccountQuestionProps) {
  const [rights, setRights] = useState(() => draftFrom(before));
  const body = { scopes: scopesFrom(rights, personNow()?.userId ?? '') };
  const deed = useDeed(async () => {
    await call('setServiceAccountScopes', { params: { id }, body });
    toast(t.accounts.changed(name));
    onDone();
    onClose();
  });
  return (
    <FormDialog title={t.accounts.rightsOf(name)} verb={t.accounts.save} deed={deed} onClose={onClose}>
      <RightsField rights={rights} onChange={setRights} />
      <p class="small dim">{t.accounts.atOnce}</p>
      <Failure error={deed.error} />
      <AsCommand curl={curlLine('PUT', `/api/service-accounts/${id}/scopes`, body)} />
    </FormDialog>
  );
}

export function DeleteAccount({ account: { id, name, token_count }, onClose, onDone }: AccountQuestionProps) {
  const deed = useDeed(async () => {
    await call('deleteServiceAccount', { params: { id } }).catch(unlessGone);
    toast(t.accounts.deleted(name));
    onDone();
  });
  return (
    <Confirm title={t.accounts.deleteTitle(name)} verb={t.accounts.delete} deed={deed} onClose={onClose}>
      <p class="dim">{t.accounts.deleteLead(token_count)}</p>
      <AsCommand troupe={troupeLine('service-account', 'rm', name)} />
    </Confirm>
  );
}
