/** The SSH keys of the account. */
import { KeyRound, Trash, UserKey, UserLock } from 'lucide';
import { useState } from 'preact/hooks';
import { curlLine, troupeLine } from '../../core/command.ts';
import { fieldError, unlessGone, useDeed } from '../../core/deed.ts';
import { dateOf } from '../../core/format.ts';
import { call, client } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import { offer } from '../../live/facts.ts';
import { containers } from '../../live/live.ts';
import { AddButton } from '../../parts/button.tsx';
import { AsCommand, Code, CopyButton } from '../../parts/copy.tsx';
import { Confirm } from '../../parts/dialog.tsx';
import { TextField } from '../../parts/field.tsx';
import { FormDialog, FormFailure } from '../../parts/form.tsx';
import { Menu } from '../../parts/menu.tsx';
import { Empty, Loading } from '../../parts/note.tsx';
import { Page } from '../../parts/page.tsx';
import { Panel } from '../../parts/panel.tsx';
import { RowOf, Rows } from '../../parts/rows.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';
import { shortKey } from '../create/keys.tsx';
import { LetKeyIn, ShutKeyOut, type SshKeyLine, type SshKeyQuestionProps } from './login-key.tsx';

interface AskedKey {
  readonly sshKey: SshKeyLine;
  readonly what: keyof typeof QUESTIONS;
}

export function Keys() {
  const [isAdding, setAdding] = useState(false);
  const [asked, setAsked] = useState<AskedKey>();
  const keys = useLoaded(async (signal) => (await client.call('listSshKeys', undefined, { signal })).ssh_keys);
  const most = offer.value?.limits.ssh_keys ?? Number.POSITIVE_INFINITY;
  const used = keys.value?.length ?? 0;
  const isFull = used >= most;
  const isKnown = keys.value !== undefined && most < Number.POSITIVE_INFINITY;
  const usedBy = (id: number) =>
    (containers.value ?? []).filter(({ ssh_key_ids = [] }) => ssh_key_ids.includes(id)).map(({ name }) => name);
  const ask = (sshKey: SshKeyLine, what: AskedKey['what']) => () => setAsked({ sshKey, what });
  return (
    <Page
      title={t.shell.keys}
      lead={isKnown ? `${t.keys.lead} ${t.keys.used(used, most)}` : t.keys.lead}
      actions={
        <AddButton
          name={t.keys.add}
          reason={isFull ? t.keys.full(used, most) : undefined}
          onClick={() => setAdding(true)}
        />
      }
      narrow
    >
      <Loading data={keys} tall={64} many={2} />
      {keys.value !== undefined && (
        <Panel>
          {keys.value.length === 0 ? (
            <Empty icon={KeyRound} title={t.keys.none} lead={t.create.makeKey}>
              <Code text={t.create.keyCommand} what={t.create.theKeyCommand} />
            </Empty>
          ) : (
            <Rows>
              {keys.value.map(({ id, name, public_key, created_at, login = false }) => (
                <RowOf
                  key={id}
                  name={
                    <>
                      {name} {login && <span class="tag">{t.keys.isLogin}</span>}
                    </>
                  }
                  about={[
                    <code>{shortKey(public_key)}</code>,
                    t.keys.added(dateOf(Date.parse(created_at))),
                    t.keys.usedBy(usedBy(id)),
                  ]}
                  actions={
                    <>
                      <CopyButton text={public_key} what={t.keys.theKey} />
                      <Menu
                        label={t.keys.more(name)}
                        items={[
                          login
                            ? { name: t.keys.shutOut, icon: UserLock, onClick: ask({ id, name }, 'shut out') }
                            : { name: t.keys.letIn, icon: UserKey, onClick: ask({ id, name }, 'let in') },
                          {
                            name: t.containers.delete,
                            icon: Trash,
                            isDanger: true,
                            onClick: ask({ id, name }, 'delete'),
                          },
                        ]}
                      />
                    </>
                  }
                />
              ))}
            </Rows>
          )}
        </Panel>
      )}
      {isAdding && <AddKey onClose={() => setAdding(false)} onAdded={keys.reload} />}
      {asked !== undefined && <AskAboutKey {...asked} onClose={() => setAsked(undefined)} onDone={keys.reload} />}
    </Page>
  );
}

function AddKey({ onClose, onAdded }: { readonly onClose: () => void; readonly onAdded: () => void }) {
  const [name, setName] = useState('');
  const [text, setText] = useState('');
  const body = {
    name: name.trim() || text.trim().split(/\s+/).slice(2).join(' ').slice(0, 64),
    public_key: text.trim(),
  };
  const deed = useDeed(async () => {
    await call('createSshKey', { body });
    toast(t.keys.saved(body.name));
    onAdded();
    onClose();
  });
  return (
    <FormDialog title={t.keys.add} verb={t.keys.add} deed={deed} onClose={onClose}>
      <TextField
        label={t.create.pasteKey}
        hint={t.keys.pasteHint}
        error={fieldError(deed.error, 'public_key')}
        rows={4}
        value={text}
        onInput={setText}
      />
      <TextField
        label={t.create.name}
        hint={t.keys.nameHint}
        error={fieldError(deed.error, 'name')}
        value={name}
        onInput={setName}
        attributes={{ maxLength: 64, autocomplete: 'off' }}
      />
      <FormFailure of={deed} />
      <AsCommand
        troupe={troupeLine('key', 'add', '~/.ssh/id_ed25519.pub')}
        curl={curlLine('POST', '/compute/ssh-keys', body)}
      />
    </FormDialog>
  );
}

function DeleteKey({ sshKey: { id, name }, onClose, onDone }: SshKeyQuestionProps) {
  const deed = useDeed(async () => {
    await call('deleteSshKey', { params: { id: String(id) } }).catch(unlessGone);
    toast(t.keys.deleted(name));
    onDone();
  });
  return (
    <Confirm title={t.keys.deleteTitle(name)} verb={t.containers.delete} deed={deed} onClose={onClose}>
      <p class="dim">{t.keys.deleteLead}</p>
    </Confirm>
  );
}

const QUESTIONS = { delete: DeleteKey, 'let in': LetKeyIn, 'shut out': ShutKeyOut } as const;

function AskAboutKey({ what, ...props }: SshKeyQuestionProps & Pick<AskedKey, 'what'>) {
  const Question = QUESTIONS[what];
  return <Question {...props} />;
}
