/** The account: profile, appearance, password, security keys, sessions. */
import { LogOut } from 'lucide';
import { useState } from 'preact/hooks';
import { fieldError, useDeed } from '../../core/deed.ts';
import { call } from '../../core/platform.ts';
import { isReadOut, setReadOut } from '../../core/read-out.ts';
import { logOut, personNow, refreshSession } from '../../core/session.ts';
import { type Theme, theme } from '../../core/theme.ts';
import { Button } from '../../parts/button.tsx';
import { Check, SelectField, TextField } from '../../parts/field.tsx';
import { Form, FormFailure } from '../../parts/form.tsx';
import { Failure } from '../../parts/note.tsx';
import { Page } from '../../parts/page.tsx';
import { Panel } from '../../parts/panel.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';
import { Limits } from './limits.tsx';
import { SecurityKeys } from './security-keys.tsx';
import { Sessions } from './sessions.tsx';

export function Settings() {
  const leave = useDeed(logOut);
  return (
    <Page
      title={t.shell.settings}
      actions={
        <Button icon={LogOut} onClick={() => void leave.run()} busy={leave.isBusy}>
          {t.settings.logOut}
        </Button>
      }
      narrow
    >
      <div class="stack">
        <Failure error={leave.error} />
        <ProfileForm />
        <Limits />
        <Look />
        <PasswordForm />
        <SecurityKeys />
        <Sessions />
      </div>
    </Page>
  );
}

function ProfileForm() {
  const person = personNow();
  const [name, setName] = useState(person?.displayName ?? '');
  const deed = useDeed(async () => {
    await call('updateProfile', { body: { display_name: name } });
    await refreshSession();
    toast(t.settings.saved);
  });
  const isSame = name.trim() === person?.displayName;
  return (
    <Panel title={t.settings.profile}>
      <Form class="inside stack" deed={deed}>
        <p class="small dim">
          {t.settings.username}: <code>{person?.username}</code>
        </p>
        <div class="inline">
          <TextField
            label={t.settings.displayName}
            error={fieldError(deed.error, 'display_name')}
            value={name}
            onInput={setName}
            attributes={{ required: true, maxLength: 128, autocomplete: 'off' }}
          />
          <Button type="submit" busy={deed.isBusy} reason={isSame ? t.settings.unchanged : undefined}>
            {t.settings.save}
          </Button>
        </div>
        <FormFailure of={deed} />
      </Form>
    </Panel>
  );
}

const THEMES: readonly Theme[] = ['system', 'light', 'dark'];

function Look() {
  return (
    <Panel title={t.settings.look}>
      <div class="inside stack">
        <SelectField
          label={t.settings.theme}
          value={theme.value}
          choices={THEMES.map((one) => [one, t.settings.themes[one]])}
          onChange={(value) => {
            theme.value = THEMES.find((one) => one === value) ?? 'system';
          }}
        />
        <Check
          label={t.settings.readOut}
          hint={t.settings.readOutHint}
          checked={isReadOut.value}
          onChange={setReadOut}
        />
      </div>
    </Panel>
  );
}

function PasswordForm() {
  const [current, setCurrent] = useState('');
  const [fresh, setFresh] = useState('');
  const deed = useDeed(async () => {
    await call('changePassword', { body: { current_password: current, new_password: fresh } });
    setCurrent('');
    setFresh('');
    toast(t.settings.changed);
  });
  return (
    <Panel title={t.settings.password}>
      <Form class="inside stack" deed={deed}>
        <input type="text" name="username" autocomplete="username" value={personNow()?.username} hidden />
        <TextField
          label={t.settings.current}
          error={fieldError(deed.error, 'current_password')}
          value={current}
          onInput={setCurrent}
          type="password"
          attributes={{ autocomplete: 'current-password', required: true }}
        />
        <TextField
          label={t.settings.fresh}
          hint={t.settings.freshHint}
          error={fieldError(deed.error, 'new_password')}
          value={fresh}
          onInput={setFresh}
          type="password"
          attributes={{ autocomplete: 'new-password', required: true }}
        />
        <FormFailure of={deed} />
        <div class="row">
          <Button type="submit" busy={deed.isBusy}>
            {t.settings.change}
          </Button>
        </div>
      </Form>
    </Panel>
  );
}
