/** Security keys, the second factor of a login. */
import { Trash } from 'lucide';
import { useState } from 'preact/hooks';
import { TroupeError } from '../../../client/index.ts';
import { type Deed, useDeed } from '../../core/deed.ts';
import { dateOf } from '../../core/format.ts';
import { call, client } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import { AddButton, Button } from '../../parts/button.tsx';
import { Confirm } from '../../parts/dialog.tsx';
import { TextField } from '../../parts/field.tsx';
import { FormDialog } from '../../parts/form.tsx';
import { Failure } from '../../parts/note.tsx';
import { Panel } from '../../parts/panel.tsx';
import { RowOf, Rows } from '../../parts/rows.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';

interface KeyLine {
  readonly id: string;
  readonly name: string;
}

export function SecurityKeys() {
  const [isAdding, setAdding] = useState(false);
  const [deleting, setDeleting] = useState<KeyLine>();
  const keys = useLoaded(async (signal) => (await client.call('listKeys', undefined, { signal })).keys);
  const list = keys.value ?? [];
  return (
    <Panel
      title={t.settings.keys}
      aside={<AddButton kind="bare" name={t.settings.addKey} onClick={() => setAdding(true)} />}
    >
      <Failure error={keys.error} onRetry={keys.reload} />
      {keys.value !== undefined && list.length === 0 && <p class="inside faint small">{t.settings.keysLead}</p>}
      <Rows>
        {list.map(({ id, name, authenticator_type, created_at }) => (
          <RowOf
            key={id}
            name={name || t.settings.unnamed}
            about={[kindOf(authenticator_type), t.settings.added(dateOf(created_at * 1000))]}
            actions={
              <Button
                kind="bare"
                icon={Trash}
                label={t.settings.deleteKey(name || t.settings.unnamed)}
                onClick={() => setDeleting({ id, name: name || t.settings.unnamed })}
              />
            }
          />
        ))}
      </Rows>
      {isAdding && <AddKey onClose={() => setAdding(false)} onAdded={keys.reload} />}
      {deleting !== undefined && (
        <DeleteKey line={deleting} onClose={() => setDeleting(undefined)} onDeleted={keys.reload} />
      )}
    </Panel>
  );
}

function kindOf(type: string): string {
  return type === 'platform' || type === 'cross-platform' ? t.settings.types[type] : '';
}

function AddKey({ onClose, onAdded }: { readonly onClose: () => void; readonly onAdded: () => void }) {
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const deed = useDeed(async () => {
    await addKey(name.trim(), password);
    toast(t.settings.keyAdded);
    onAdded();
    onClose();
  });
  return (
    <FormDialog title={t.settings.addKey} verb={t.settings.addKey} deed={deed} onClose={onClose}>
      <p class="dim small">{t.settings.keysLead}</p>
      <TextField
        label={t.settings.keyName}
        value={name}
        onInput={setName}
        attributes={{ maxLength: 64, autocomplete: 'off', autofocus: true }}
      />
      <Proof deed={deed} password={password} onInput={setPassword} />
      <Failure error={deed.error} />
    </FormDialog>
  );
}

/** The browser makes a key; the platform keeps its public half. */
async function addKey(name: string, password: string): Promise<void> {
  const { options, state } = await call('beginAddKey');
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options);
  const credential = await navigator.credentials.create({ publicKey }).catch((cause) => {
    throw new TroupeError('cancelled', t.settings.noAnswer, { cause });
  });
  if (!(credential instanceof PublicKeyCredential)) throw new TroupeError('cancelled', t.settings.noAnswer);
  const proof = password === '' ? {} : { password };
  await client.request('POST', '/api/settings/keys/add/finish', {
    state,
    credential: credential.toJSON(),
    name,
    ...proof,
  });
}

interface DeleteKeyProps {
  readonly line: KeyLine;
  readonly onClose: () => void;
  readonly onDeleted: () => void;
}

function DeleteKey({ line: { id, name }, onClose, onDeleted }: DeleteKeyProps) {
  const [password, setPassword] = useState('');
  const deed = useDeed(async () => {
    await call('deleteKey', { body: password === '' ? { id } : { id, password } });
    toast(t.settings.keyDeleted);
    onDeleted();
  });
  return (
    <Confirm title={t.settings.deleteKeyTitle(name)} verb={t.containers.delete} deed={deed} onClose={onClose}>
      <p class="dim">{t.settings.deleteKeyLead}</p>
      <Proof deed={deed} password={password} onInput={setPassword} />
    </Confirm>
  );
}

interface ProofProps {
  readonly deed: Deed<[]>;
  readonly password: string;
  readonly onInput: (password: string) => void;
}

/** The password, which a session that is not new has to give. */
function Proof({ deed, password, onInput }: ProofProps) {
  const isAsked = deed.error?.code === 'proof_needed' || deed.error?.code === 'wrong_password' || password !== '';
  if (!isAsked) return null;
  return (
    <TextField
      label={t.settings.proof}
      hint={t.settings.proofHint}
      value={password}
      onInput={onInput}
      type="password"
      attributes={{ autocomplete: 'current-password' }}
    />
  );
}
