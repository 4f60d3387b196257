/** Name and password, then the security key of whoever has one. */
import { FingerprintPattern } from 'lucide';
import { useEffect, useState } from 'preact/hooks';
import { useDeed } from '../../core/deed.ts';
import { answerWithKey, enterPassword } from '../../core/session.ts';
import { Button } from '../../parts/button.tsx';
import { TextField } from '../../parts/field.tsx';
import { Form } from '../../parts/form.tsx';
import { Icon } from '../../parts/icon.tsx';
import { Failure, useSecondsLeft } from '../../parts/note.tsx';
import { t } from '../../text/text.ts';

interface LoginFormProps {
  /** Whose session it was. */
  readonly username?: string;
}

export function LoginForm({ username: given = '' }: LoginFormProps) {
  const [username, setUsername] = useState(given);
  const [password, setPassword] = useState('');
  const [challenge, setChallenge] = useState<string>();
  const deed = useDeed(async () => {
    const step = await enterPassword(username.trim(), password);
    setPassword('');
    if (!step.done) setChallenge(step.challenge);
  });
  const left = useSecondsLeft(deed.error);
  if (challenge !== undefined) return <SecurityKeyStep challenge={challenge} onBack={() => setChallenge(undefined)} />;
  return (
    <Form class="login" deed={deed}>
      <div class="stack">
        <TextField
          label={t.login.username}
          value={username}
          onInput={setUsername}
          big
          attributes={{ name: 'username', autocomplete: 'username', required: true, autofocus: given === '' }}
        />
        <TextField
          label={t.login.password}
          value={password}
          onInput={setPassword}
          type="password"
          big
          attributes={{
            name: 'password',
            autocomplete: 'current-password',
            required: true,
            autofocus: given !== '',
          }}
        />
        <Failure error={deed.error} isWaitSaid />
      </div>
      <div class="stack tight">
        <Button type="submit" kind="main" big busy={deed.isBusy} reason={left > 0 ? t.failure.wait(left) : undefined}>
          {left > 0 ? t.failure.wait(left) : t.login.submit}
        </Button>
        <p class="tiny faint after">{t.login.keyNext}</p>
      </div>
    </Form>
  );
}

interface SecurityKeyStepProps {
  readonly challenge: string;
  readonly onBack: () => void;
}

/** A challenge counts once: asking again begins with the password. */
function SecurityKeyStep({ challenge, onBack }: SecurityKeyStepProps) {
  const deed = useDeed(() => proveWithKey(challenge));
  useEffect(() => void deed.run(), []);
  return (
    <section class="login" aria-live="polite">
      <div class="steps" aria-hidden="true">
        <i class="on" />
        <i class="on" />
      </div>
      <div class="touch">
        <span class="ring">
          <Icon of={FingerprintPattern} size={36} />
        </span>
        <div>
          <h2>{t.login.touch}</h2>
          <p class="dim small">{t.login.touchLead}</p>
        </div>
      </div>
      <Failure error={deed.error} />
      <Button big kind={deed.error === undefined ? 'bare' : 'plain'} onClick={onBack}>
        {deed.error === undefined ? t.login.other : t.login.again}
      </Button>
    </section>
  );
}

/** Errors of the browser as sentences. */
async function proveWithKey(challenge: string): Promise<void> {
  if (!('PublicKeyCredential' in globalThis)) throw new Error(t.login.noKeysHere);
  try {
    await answerWithKey(challenge);
  } catch (error) {
    if (error instanceof DOMException) throw new Error(t.login.noAnswer, { cause: error });
    throw error;
  }
}
