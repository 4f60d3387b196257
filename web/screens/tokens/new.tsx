/** A new API token, of the account or of a service account: it is shown once. */
import { useState } from 'preact/hooks';
import { curlLine, troupeLine } from '../../core/command.ts';
import { fieldError, useDeed } from '../../core/deed.ts';
import { call } from '../../core/platform.ts';
import { personNow } from '../../core/session.ts';
import { AsCommand } from '../../parts/copy.tsx';
import { SelectField, TextField } from '../../parts/field.tsx';
import { FormDialog } from '../../parts/form.tsx';
import { Failure } from '../../parts/note.tsx';
import { SecretDialog } from '../../parts/secret.tsx';
import { t } from '../../text/text.ts';
import { RightsField } from './rights.tsx';
import { NO_RIGHTS, type RightsDraft, type ServiceAccountLine, scopesFrom } from './scopes.ts';

const LIFETIMES = ['30d', '90d', '365d', 'never'] as const;

interface NewTokenProps {
  /** Whose token it is, and whose rights it has; without: the caller's own, with rights of its own. */
  readonly account?: ServiceAccountLine;
  readonly onClose: () => void;
  readonly onMade: () => void;
}

export function NewToken({ account, onClose, onMade }: NewTokenProps) {
  const [name, setName] = useState('');
  const [lifetime, setLifetime] = useState<(typeof LIFETIMES)[number]>('90d');
  const [rights, setRights] = useState<RightsDraft>(NO_RIGHTS);
  const [secret, setSecret] = useState<string>();
  const scopes = scopesFrom(rights, personNow()?.userId ?? '');
  const common = { name: name.trim(), expires_in: lifetime };
  const deed = useDeed(async () => {
    const made =
      account === undefined
        ? await call('createToken', { body: { ...common, scopes } })
        : await call('createServiceAccountToken', { params: { id: account.id }, body: common });
    onMade();
    setSecret(made.token);
  });
  if (secret !== undefined)
    return (
      <SecretDialog
        title={t.tokens.made}
        lead={t.tokens.madeLead}
        text={secret}
        what={t.tokens.theToken}
        file={`token-${common.name}.txt`}
        onClose={onClose}
      />
    );
  const isWithout = account === undefined && Object.keys(scopes).length === 0;
  return (
    <FormDialog
      title={account === undefined ? t.tokens.add : t.accounts.newTokenOf(account.name)}
      verb={t.tokens.add}
      deed={deed}
      reason={isWithout ? t.tokens.noScope : undefined}
      onClose={onClose}
    >
      <TextField
        label={t.tokens.name}
        hint={t.tokens.nameHint}
        error={fieldError(deed.error, 'name')}
        value={name}
        onInput={setName}
        attributes={{ required: true, maxLength: 64, autocomplete: 'off', autofocus: true }}
      />
      {account === undefined ? (
        <RightsField rights={rights} onChange={setRights} />
      ) : (
        <p class="small dim">{t.accounts.sameRights}</p>
      )}
      <SelectField
        label={t.tokens.expires}
        value={lifetime}
        choices={LIFETIMES.map((one) => [one, t.tokens.lifetimes[one]])}
        onChange={(value) => setLifetime(LIFETIMES.find((one) => one === value) ?? '90d')}
      />
      {!(deed.error?.fields.some(({ path }) => path === 'name') ?? false) && <Failure error={deed.error} />}
      {account === undefined ? (
        <AsCommand curl={curlLine('POST', '/api/tokens', { ...common, scopes })} />
      ) : (
        <AsCommand troupe={troupeLine('service-account', 'token', account.name, common.name || 'NAME')} />
      )}
    </FormDialog>
  );
}
