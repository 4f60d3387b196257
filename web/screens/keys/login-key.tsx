/** Whether an SSH key opens the account, and not only containers: asked before it changes. */
import type { TroupeError } from '../../../client/index.ts';
import { troupeLine } from '../../core/command.ts';
import { useDeed } from '../../core/deed.ts';
import { call } from '../../core/platform.ts';
import { logInAgain } from '../../core/session.ts';
import { Button } from '../../parts/button.tsx';
import { AsCommand } from '../../parts/copy.tsx';
import { AnswerButtons, Confirm, Dialog } from '../../parts/dialog.tsx';
import { Failure, Note } from '../../parts/note.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';

/** A key that something is asked about. */
export interface SshKeyLine {
  readonly id: number;
  readonly name: string;
}

export interface SshKeyQuestionProps {
  readonly sshKey: SshKeyLine;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

export function LetKeyIn({ sshKey: { id, name }, onClose, onDone }: SshKeyQuestionProps) {
  const deed = useDeed(async () => {
    await call('setSshKeyLogin', { params: { id: String(id) }, body: { login: true } });
    toast(t.keys.isIn(name));
    onDone();
    onClose();
  });
  return (
    <Dialog title={t.keys.letInTitle(name)} onClose={onClose}>
      <p class="dim">{t.keys.letInLead}</p>
      <p class="dim">{t.keys.letInLimits}</p>
      {isTooOld(deed.error) ? <TooOld onAgain={deed.clear} /> : <Failure error={deed.error} />}
      <AsCommand troupe={troupeLine('key', 'login', name)} />
      <AnswerButtons verb={t.keys.letInVerb} deed={deed} onClose={onClose} />
    </Dialog>
  );
}

/** A session of a browser is refused this for one reason: nobody has given a password for a while. */
function isTooOld(error: TroupeError | undefined): boolean {
  return error?.code === 'forbidden';
}

function TooOld({ onAgain }: { readonly onAgain: () => void }) {
  const again = useDeed(async () => {
    await logInAgain();
    onAgain();
  });
  return (
    <Note tone="warn">
      {t.keys.tooOld}
      <Failure error={again.error} />
      <div>
        <Button onClick={() => void again.run()} busy={again.isBusy}>
          {t.keys.again}
        </Button>
      </div>
    </Note>
  );
}

export function ShutKeyOut({ sshKey: { id, name }, onClose, onDone }: SshKeyQuestionProps) {
  const deed = useDeed(async () => {
    await call('setSshKeyLogin', { params: { id: String(id) }, body: { login: false } });
    toast(t.keys.isOut(name));
    onDone();
  });
  return (
    <Confirm title={t.keys.shutOutTitle(name)} verb={t.keys.shutOutVerb} deed={deed} onClose={onClose}>
      <p class="dim">{t.keys.shutOutLead}</p>
      <AsCommand troupe={troupeLine('key', 'login', name, '--off')} />
    </Confirm>
  );
}
