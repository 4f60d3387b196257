/** A new API token: its rights as boxes to tick, the same as the scopes that are sent, and the secret once. */
import { useState } from 'preact/hooks';
import { curlLine } from '../../core/command.ts';
import { fieldError, useDeed } from '../../core/deed.ts';
import { call } from '../../core/platform.ts';
import { personNow } from '../../core/session.ts';
import { containers } from '../../live/live.ts';
import { Button } from '../../parts/button.tsx';
import { AsCommand } from '../../parts/copy.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { SelectField, TextField } from '../../parts/field.tsx';
import { Failure } from '../../parts/note.tsx';
import { SecretDialog } from '../../parts/secret.tsx';
import { t } from '../../text/text.ts';
import { AREAS, type RightsDraft, scopesFrom } from './scopes.ts';

const LIFETIMES = ['30d', '90d', '365d', 'never'] as const;

interface NewTokenProps {
  readonly onClose: () => void;
  readonly onMade: () => void;
}

export function NewToken({ onClose, onMade }: NewTokenProps) {
  const [name, setName] = useState('');
  const [lifetime, setLifetime] = useState<(typeof LIFETIMES)[number]>('90d');
  const [rights, setRights] = useState<RightsDraft>({ actions: {}, container: '' });
  const [secret, setSecret] = useState<string>();
  const scopes = scopesFrom(rights, personNow()?.userId ?? '');
  const body = { name: name.trim(), scopes, expires_in: lifetime };
  const deed = useDeed(async () => {
    const { token } = await call('createToken', { body });
    onMade();
    setSecret(token);
  });
  if (secret !== undefined)
    return (
      <SecretDialog
        title={t.tokens.made}
        lead={t.tokens.madeLead}
        text={secret}
        what={t.tokens.theToken}
        file={`token-${body.name}.txt`}
        onClose={onClose}
      />
    );
  const submit = (event: Event) => {
    event.preventDefault();
    void deed.run();
  };
  return (
    <Dialog title={t.tokens.add} onClose={onClose}>
      <form class="stack" onSubmit={submit}>
        <TextField
          label={t.tokens.name}
          hint={t.tokens.nameHint}
          error={fieldError(deed.error, 'name')}
          value={name}
          onInput={setName}
          attributes={{ required: true, maxLength: 64, autocomplete: 'off', autofocus: true }}
        />
        <RightsField rights={rights} onChange={setRights} />
        <SelectField
          label={t.tokens.expires}
          value={lifetime}
          choices={LIFETIMES.map((one) => [one, t.tokens.lifetimes[one]])}
          onChange={(value) => setLifetime(LIFETIMES.find((one) => one === value) ?? '90d')}
        />
        <Failure error={deed.error} />
        <AsCommand curl={curlLine('POST', '/api/tokens', body)} />
        <div class="ends">
          <Button onClick={onClose}>{t.dialog.cancel}</Button>
          <Button
            type="submit"
            kind="main"
            busy={deed.isBusy}
            reason={Object.keys(scopes).length === 0 ? t.tokens.noScope : undefined}
          >
            {t.tokens.add}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

interface RightsFieldProps {
  readonly rights: RightsDraft;
  readonly onChange: (rights: RightsDraft) => void;
}

function RightsField({ rights, onChange }: RightsFieldProps) {
  const toggle = (area: string, action: string, isOn: boolean) => {
    const before = rights.actions[area] ?? [];
    const actions = isOn ? [...before, action] : before.filter((one) => one !== action);
    onChange({ ...rights, actions: { ...rights.actions, [area]: actions } });
  };
  return (
    <fieldset class="field">
      <legend>{t.tokens.scopes}</legend>
      <div class="stack tight">
        {AREAS.map(({ area, actions }) => (
          <fieldset class="rights" key={area}>
            <legend>{t.tokens.areas[area]}</legend>
            <div class="row wrap">
              {actions.map((action) => (
                <label class="check" key={action}>
                  <input
                    type="checkbox"
                    checked={rights.actions[area]?.includes(action) ?? false}
                    onChange={(event) => toggle(area, action, event.currentTarget.checked)}
                  />
                  {action}
                </label>
              ))}
            </div>
          </fieldset>
        ))}
        <SelectField
          label={t.tokens.which}
          value={rights.container}
          choices={[
            ['', t.tokens.allContainers],
            ...(containers.value ?? []).map(({ id, name }) => [id, name] as const),
          ]}
          onChange={(container) => onChange({ ...rights, container })}
        />
      </div>
    </fieldset>
  );
}
