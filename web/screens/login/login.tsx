/** The login: a screen of its own, or a dialog over what somebody was at when the session ended. */
import { client } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import { logOut, personNow } from '../../core/session.ts';
import { Button } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { t } from '../../text/text.ts';
import { LoginForm } from './form.tsx';
import { Gate } from './gate.tsx';

export function LoginScreen() {
  const platform = useLoaded((signal) => client.call('showPlatform', undefined, { signal }));
  const { hostname } = location;
  const foot = (
    <>
      <span>{t.login.version(platform.value?.version ?? '')}</span>
      <span>
        {t.login.terminal} <code>troupe login {hostname}</code>
      </span>
      <span>{t.login.lost}</span>
    </>
  );
  return (
    <Gate name={t.login.short} title={t.login.title(hostname)} lead={t.login.lead} foot={foot}>
      <LoginForm />
    </Gate>
  );
}

/** What is on the page stays as it is below it. */
export function LoginDialog() {
  const username = personNow()?.username ?? '';
  return (
    <Dialog title={t.login.ended} onClose={() => {}} mustStay>
      <p class="dim small">{t.login.endedLead}</p>
      <LoginForm username={username} />
      <Button kind="bare" onClick={() => void logOut()}>
        {t.login.other}
      </Button>
    </Dialog>
  );
}
