/** What is shown: the login, or the screen of the address in the frame of all screens. */
import { isOpen } from './core/places.ts';
import { place } from './core/router.ts';
import { refreshSession, session, sessionError } from './core/session.ts';
import { Failure } from './parts/note.tsx';
import { Toasts } from './parts/toast.tsx';
import { LoginDialog, LoginScreen } from './screens/login/login.tsx';
import { Screen } from './shell/screen.tsx';
import { Shell } from './shell/shell.tsx';

export function App() {
  const { state } = session.value;
  if (isOpen(place.value.path))
    return (
      <>
        <Screen />
        <Toasts />
      </>
    );
  if (state === 'unknown')
    return sessionError.value === undefined ? null : (
      <main class="page narrow">
        <Failure error={sessionError.value} onRetry={() => void refreshSession()} />
      </main>
    );
  return (
    <>
      {state === 'none' ? (
        <LoginScreen />
      ) : (
        <Shell>
          <Screen />
        </Shell>
      )}
      {state === 'ended' && <LoginDialog />}
      <Toasts />
    </>
  );
}
