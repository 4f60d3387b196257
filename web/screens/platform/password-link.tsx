/** A link by which a user sets a password: asked for, and shown once. */
import { useState } from 'preact/hooks';
import type { CallReply } from '../../../client/index.ts';
import { curlLine, troupeLine } from '../../core/command.ts';
import { useDeed } from '../../core/deed.ts';
import { exactTime } from '../../core/format.ts';
import { call } from '../../core/platform.ts';
import { AsCommand } from '../../parts/copy.tsx';
import { AnswerButtons, Dialog } from '../../parts/dialog.tsx';
import { SelectField } from '../../parts/field.tsx';
import { Failure } from '../../parts/note.tsx';
import { SecretDialog } from '../../parts/secret.tsx';
import { t } from '../../text/text.ts';

export type MadePasswordLink = CallReply<'adminPasswordLink'>;

const TIMES = Object.entries(t.users.linkTimes);

/** A choice of the list; a day for what is none. */
function lifetimeOf(choice: string): '1h' | '24h' | '7d' {
  return choice === '1h' || choice === '7d' ? choice : '24h';
}

interface AskForLinkProps {
  readonly user: { readonly id: string; readonly username: string };
  readonly onClose: () => void;
}

export function AskForLink({ user: { id, username }, onClose }: AskForLinkProps) {
  const [choice, setChoice] = useState('24h');
  const [made, setMade] = useState<MadePasswordLink>();
  const expires_in = lifetimeOf(choice);
  const deed = useDeed(async () => setMade(await call('adminPasswordLink', { params: { id }, query: { expires_in } })));
  if (made !== undefined) return <LinkOnce username={username} link={made} onClose={onClose} />;
  return (
    <Dialog title={t.users.linkTitle(username)} onClose={onClose}>
      <p class="dim">{t.users.linkLead}</p>
      <SelectField label={t.users.linkLasts} value={choice} choices={TIMES} onChange={setChoice} />
      <Failure error={deed.error} />
      <AsCommand
        troupe={troupeLine('users', 'password-link', username, '--expires', expires_in)}
        curl={curlLine('POST', `/api/admin/users/${id}/password-link?expires_in=${expires_in}`)}
      />
      <AnswerButtons kind="main" verb={t.users.linkVerb} deed={deed} onClose={onClose} />
    </Dialog>
  );
}

interface LinkOnceProps {
  readonly username: string;
  readonly link: MadePasswordLink;
  readonly onClose: () => void;
}

export function LinkOnce({ username, link, onClose }: LinkOnceProps) {
  return (
    <SecretDialog
      title={t.users.linkOnceTitle(username)}
      lead={t.users.linkOnceLead(exactTime(Date.parse(link.expires_at)))}
      text={here(link.url)}
      what={t.users.theLink}
      file={`password-link-${username}.txt`}
      onClose={onClose}
    />
  );
}

/** Where this browser reaches the console, others do as well: the platform knows no plain HTTP and no tunnel. */
function here(url: string): string {
  const { pathname, hash } = new URL(url);
  return `${location.origin}${pathname}${hash}`;
}
