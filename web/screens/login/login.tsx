/** The login: a screen of its own, or a dialog over what somebody was at when the session ended. */
import './login.css';
import { client } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import { logOut, personNow } from '../../core/session.ts';
import { Mark } from '../../parts/brand.tsx';
import { Button } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { useTitle } from '../../parts/page.tsx';
import { t } from '../../text/text.ts';
import { LoginForm } from './form.tsx';

/** Arches of a stage, one behind the other. */
const ARCHES: readonly (readonly [d: string, opacity: number])[] = [
  ['M440 2400V700a260 242 0 0 1 520 0V2400', 1],
  ['M355 2400V700a345 321 0 0 1 690 0V2400', 0.83],
  ['M260 2400V700a440 409 0 0 1 880 0V2400', 0.66],
  ['M150 2400V700a550 512 0 0 1 1100 0V2400', 0.49],
  ['m20 2400V700a680 632 0 0 1 1360 0V2400', 0.32],
];

export function LoginScreen() {
  useTitle(t.login.short);
  const platform = useLoaded((signal) => client.call('showPlatform', undefined, { signal }));
  const { hostname } = location;
  return (
    <div class="gate">
      <main>
        <svg class="arch" viewBox="0 0 1400 760" fill="none" stroke="currentColor" aria-hidden="true">
          {ARCHES.map(([d, opacity]) => (
            <path key={d} d={d} stroke-width="1" opacity={opacity} />
          ))}
        </svg>
        <div class="sheet">
          <div class="who">
            <Mark size={34} />
            <div>
              <h1>{t.login.title(hostname)}</h1>
              <p class="dim small">{t.login.lead}</p>
            </div>
          </div>
          <LoginForm />
        </div>
      </main>
      <footer>
        <span>{t.login.version(platform.value?.version ?? '')}</span>
        <span>
          {t.login.terminal} <code>troupe login {hostname}</code>
        </span>
        <span>{t.login.lost}</span>
      </footer>
    </div>
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
