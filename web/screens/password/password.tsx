/** What a password link opens: somebody who cannot log in sets a password, then logs in with it. */
import { useEffect, useState } from 'preact/hooks';
import { fieldError, useDeed } from '../../core/deed.ts';
import { exactTime } from '../../core/format.ts';
import { client } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import { go } from '../../core/router.ts';
import { personNow, refreshSession } from '../../core/session.ts';
import { Button } from '../../parts/button.tsx';
import { TextField } from '../../parts/field.tsx';
import { Bones, Failure, Note, useSecondsLeft } from '../../parts/note.tsx';
import { t } from '../../text/text.ts';
import { LoginForm } from '../login/form.tsx';
import { Gate } from '../login/gate.tsx';

export function PasswordLink() {
  const [token, setToken] = useState(tokenInAddress);
  useEffect(() => {
    // Another link in the same tab.
    const look = () => setToken(tokenInAddress());
    addEventListener('hashchange', look);
    return () => removeEventListener('hashchange', look);
  }, []);
  if (token !== '') return <ByToken key={token} token={token} />;
  return (
    <Gate name={t.password.title} title={t.password.title}>
      <Note tone="warn">{t.password.noLink}</Note>
    </Gate>
  );
}

/** It stays in the address until it is used, so that a page that is loaded again still has it. */
function tokenInAddress(): string {
  return location.hash.replace(/[^\w-]/g, '');
}

function ByToken({ token }: { readonly token: string }) {
  const [isSet, setSet] = useState(false);
  const link = useLoaded((signal) => client.call('showPasswordLink', { body: { token } }, { signal }));
  const username = link.value?.username ?? '';
  const isIn = isSet && personNow()?.username === username;
  useEffect(() => {
    if (isIn) go('/containers', { replace: true });
  }, [isIn]);
  useEffect(() => {
    if (isSet) document.querySelector<HTMLInputElement>('.login input[name=password]')?.focus();
  }, [isSet]);
  if (isSet)
    return (
      <Gate name={t.login.short} title={t.login.title(location.hostname)}>
        <div class="stack">
          <Note tone="ok">
            {t.password.done(username)} {t.password.logIn}
          </Note>
          <LoginForm username={username} />
        </div>
      </Gate>
    );
  const lead = link.value === undefined ? undefined : t.password.setFor(username, location.hostname);
  return (
    <Gate name={t.password.title} title={t.password.title} lead={lead}>
      {link.value !== undefined ? (
        <NewPasswordForm
          token={token}
          username={username}
          expiresAt={link.value.expires_at}
          onSet={() => setSet(true)}
        />
      ) : link.error !== undefined ? (
        <Failure error={link.error} {...(link.error.code === 'not_found' ? {} : { onRetry: link.reload })} />
      ) : (
        <Bones tall={48} many={3} />
      )}
    </Gate>
  );
}

interface NewPasswordFormProps {
  readonly token: string;
  readonly username: string;
  readonly expiresAt: string;
  readonly onSet: () => void;
}

function NewPasswordForm({ token, username, expiresAt, onSet }: NewPasswordFormProps) {
  const [password, setPassword] = useState('');
  const [again, setAgain] = useState('');
  const [isDifferent, setDifferent] = useState(false);
  const deed = useDeed(async () => {
    await client.call('usePasswordLink', { body: { token, new_password: password } });
    // It is of no use to anybody now.
    go(location.pathname, { replace: true });
    // This browser may have had a session of theirs.
    await refreshSession();
    onSet();
  });
  const left = useSecondsLeft(deed.error);
  const submit = (event: Event) => {
    event.preventDefault();
    setDifferent(password !== again);
    if (password === again) void deed.run();
  };
  const wrong = fieldError(deed.error, 'new_password');
  return (
    <form class="login" onSubmit={submit}>
      <div class="stack">
        {/* Password managers keep the name with the password. */}
        <input type="text" name="username" autocomplete="username" value={username} readOnly hidden />
        <TextField
          label={t.password.password}
          hint={t.password.passwordHint}
          error={wrong}
          value={password}
          onInput={setPassword}
          type="password"
          big
          attributes={{ name: 'new-password', autocomplete: 'new-password', required: true, autofocus: true }}
        />
        <TextField
          label={t.password.again}
          error={isDifferent ? t.password.differ : undefined}
          value={again}
          onInput={(text) => {
            setAgain(text);
            setDifferent(false);
          }}
          type="password"
          big
          attributes={{ name: 'new-password-again', autocomplete: 'new-password', required: true }}
        />
        {wrong === undefined && <Failure error={deed.error} isWaitSaid />}
      </div>
      <div class="stack tight">
        <Button type="submit" kind="main" big busy={deed.isBusy} reason={left > 0 ? t.failure.wait(left) : undefined}>
          {left > 0 ? t.failure.wait(left) : t.password.submit}
        </Button>
        <p class="tiny faint after">
          {t.password.until(exactTime(Date.parse(expiresAt)))} {t.password.ends}
        </p>
      </div>
    </form>
  );
}
