/** What is asked before something is done about a user. */
import { useState } from 'preact/hooks';
import type { CallReply } from '../../../client/index.ts';
import { now } from '../../core/clock.ts';
import { curlLine, troupeLine } from '../../core/command.ts';
import { fieldError, useDeed } from '../../core/deed.ts';
import { exactTime, span } from '../../core/format.ts';
import { call } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import { Button } from '../../parts/button.tsx';
import { AsCommand } from '../../parts/copy.tsx';
import { AnswerButtons, Confirm, ConfirmByName, Dialog } from '../../parts/dialog.tsx';
import { Check, TextField } from '../../parts/field.tsx';
import { FormDialog, FormFailure } from '../../parts/form.tsx';
import { Failure, Loading } from '../../parts/note.tsx';
import { RowOf, Rows } from '../../parts/rows.tsx';
import { SecretDialog } from '../../parts/secret.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';

import { ImageRoom } from './image-room.tsx';
import { AskForLink, LinkOnce, type MadePasswordLink } from './password-link.tsx';
import { UserLimits } from './user-limits.tsx';

export type ListedUser = CallReply<'adminListUsers'>[number];

export type UserQuestion = keyof typeof QUESTIONS;

interface UserQuestionProps {
  readonly user: ListedUser;
  readonly onClose: () => void;
}

export function AddUser({ onClose, onAdded }: { readonly onClose: () => void; readonly onAdded: () => void }) {
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const [isLink, setIsLink] = useState(false);
  const [made, setMade] = useState<string>();
  const [link, setLink] = useState<MadePasswordLink>();
  /** Who was added, by name: what comes after may be tried again. */
  const [added] = useState(() => new Map<string, string>());
  const username = name.trim();
  const addWithLink = async () => {
    const id = added.get(username) ?? (await call('adminAddUser', { body: { username } })).id;
    added.set(username, id);
    onAdded();
    setLink(await call('adminPasswordLink', { params: { id } }));
    toast(t.users.saved(username));
  };
  const deed = useDeed(async () => {
    if (isLink) return addWithLink();
    const reply = await call('adminAddUser', { body: { username, ...(password === '' ? {} : { password }) } });
    toast(t.users.saved(username));
    onAdded();
    if (reply.password === null) onClose();
    else setMade(reply.password);
  });
  if (made !== undefined) return <PasswordOnce username={username} password={made} onClose={onClose} />;
  if (link !== undefined) return <LinkOnce username={username} link={link} onClose={onClose} />;
  return (
    <FormDialog title={t.users.add} verb={t.users.add} deed={deed} onClose={onClose}>
      <TextField
        label={t.users.name}
        hint={t.users.nameHint}
        error={fieldError(deed.error, 'username')}
        value={name}
        onInput={setName}
        attributes={{ required: true, maxLength: 63, autocomplete: 'off', autofocus: true }}
      />
      {!isLink && (
        <TextField
          label={t.users.password}
          hint={t.users.passwordHint}
          error={fieldError(deed.error, 'password')}
          type="password"
          value={password}
          onInput={setPassword}
          attributes={{ autocomplete: 'new-password' }}
        />
      )}
      <Check label={t.users.linkInstead} hint={t.users.linkInsteadHint} checked={isLink} onChange={setIsLink} />
      <FormFailure of={deed} />
      <AsCommand
        troupe={troupeLine('users', 'add', username === '' ? 'NAME' : username, isLink ? '--link' : undefined)}
        curl={curlLine('POST', '/api/admin/users', { username })}
      />
    </FormDialog>
  );
}

interface PasswordOnceProps {
  readonly username: string;
  readonly password: string;
  readonly onClose: () => void;
}

function PasswordOnce({ username, password, onClose }: PasswordOnceProps) {
  return (
    <SecretDialog
      title={t.users.secretTitle(username)}
      lead={t.users.secretLead}
      text={password}
      what={t.users.thePassword}
      file={`password-${username}.txt`}
      onClose={onClose}
    />
  );
}

function UserSessions({ user: { id, username }, onClose }: UserQuestionProps) {
  const sessions = useLoaded((signal) => call('adminListSessions', { params: { id } }, { signal }));
  const deed = useDeed(async () => {
    const { ended } = await call('adminEndSessions', { params: { id } });
    toast(t.users.ended(ended));
    sessions.reload();
  });
  const list = sessions.value;
  return (
    <Dialog title={t.users.sessionsOf(username)} onClose={onClose}>
      <Loading data={sessions} many={2} />
      {list?.length === 0 && <p class="dim">{t.users.noSessions}</p>}
      {list !== undefined && list.length > 0 && (
        <div class="panel">
          <Rows>
            {list.map(({ id: session, ip_address, created_at }) => (
              <RowOf
                key={session}
                name={<span class="mono">{ip_address}</span>}
                about={[
                  <time dateTime={created_at} title={exactTime(Date.parse(created_at))}>
                    {t.users.sessionSince(span(now.value - Date.parse(created_at)))}
                  </time>,
                ]}
              />
            ))}
          </Rows>
        </div>
      )}
      <Failure error={deed.error} />
      <div class="ends">
        <Button onClick={onClose} autofocus>
          {t.dialog.close}
        </Button>
        {list !== undefined && list.length > 0 && (
          <Button kind="danger" onClick={() => void deed.run()} busy={deed.isBusy}>
            {t.users.endAll}
          </Button>
        )}
      </div>
    </Dialog>
  );
}

function NewPassword({ user: { id, username }, onClose }: UserQuestionProps) {
  const [made, setMade] = useState<string>();
  const deed = useDeed(async () => setMade((await call('adminSetPassword', { params: { id } })).password));
  if (made !== undefined) return <PasswordOnce username={username} password={made} onClose={onClose} />;
  return (
    <Dialog title={t.users.passwordTitle(username)} onClose={onClose}>
      <p class="dim">{t.users.passwordLead}</p>
      <Failure error={deed.error} />
      <AsCommand troupe={troupeLine('users', 'passwd', username)} />
      <AnswerButtons verb={t.users.passwordVerb} deed={deed} onClose={onClose} />
    </Dialog>
  );
}

function ForgetKeys({ user: { id, username }, onClose }: UserQuestionProps) {
  const deed = useDeed(async () => {
    const { keys } = await call('adminForgetKeys', { params: { id } });
    toast(t.users.forgot(keys));
  });
  return (
    <Confirm title={t.users.forgetTitle(username)} verb={t.users.forgetVerb} deed={deed} onClose={onClose}>
      <p class="dim">{t.users.forgetLead}</p>
      <AsCommand troupe={troupeLine('users', 'forget-keys', username)} />
    </Confirm>
  );
}

function DisableUser({ user: { id, username }, onClose }: UserQuestionProps) {
  const [isStopping, setStopping] = useState(false);
  const deed = useDeed(async () => {
    await call('adminDisableUser', { params: { id }, query: { stop: isStopping ? 'true' : 'false' } });
    toast(t.users.disabled(username));
  });
  return (
    <Confirm title={t.users.disableTitle(username)} verb={t.users.disable} deed={deed} onClose={onClose}>
      <p class="dim">{t.users.disableLead}</p>
      <Check label={t.users.stopToo} checked={isStopping} onChange={setStopping} />
      <AsCommand troupe={troupeLine('users', 'disable', username, isStopping ? '--stop' : undefined)} />
    </Confirm>
  );
}

/** Their data goes with them, so the name has to be typed. */
function RemoveUser({ user: { id, username }, onClose }: UserQuestionProps) {
  const deed = useDeed(async () => {
    await call('adminRemoveUser', { params: { id } });
    toast(t.users.removed(username));
  });
  return (
    <ConfirmByName
      name={username}
      title={t.users.removeTitle(username)}
      lead={t.users.removeLead}
      verb={t.users.remove}
      deed={deed}
      onClose={onClose}
    >
      <AsCommand troupe={troupeLine('users', 'remove', username)} />
    </ConfirmByName>
  );
}

const QUESTIONS = {
  sessions: UserSessions,
  password: NewPassword,
  link: AskForLink,
  forget: ForgetKeys,
  images: ImageRoom,
  limits: UserLimits,
  disable: DisableUser,
  remove: RemoveUser,
} as const;

export function AskAboutUser({ what, ...props }: UserQuestionProps & { readonly what: UserQuestion }) {
  const Question = QUESTIONS[what];
  return <Question {...props} />;
}
