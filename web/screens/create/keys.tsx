/** Which SSH keys open a container: those of the account, and one that is pasted here. */
import { useState } from 'preact/hooks';
import type { CallReply } from '../../../client/index.ts';
import type { LoadedData } from '../../core/resource.ts';
import { Button } from '../../parts/button.tsx';
import { Code } from '../../parts/copy.tsx';
import { Check, TextField } from '../../parts/field.tsx';
import { Bones, Failure } from '../../parts/note.tsx';
import { t } from '../../text/text.ts';
import type { CreateDraft } from './draft.ts';

interface KeyFieldProps {
  readonly known: LoadedData<CallReply<'listSshKeys'>['ssh_keys']>;
  readonly draft: CreateDraft;
  readonly change: (part: Partial<CreateDraft>) => void;
  readonly error: string | undefined;
}

export function KeyField({ known, draft, change, error }: KeyFieldProps) {
  const [isPasting, setPasting] = useState(false);
  const { value: keys } = known;
  if (keys === undefined)
    return known.error === undefined ? <Bones tall={64} /> : <Failure error={known.error} onRetry={known.reload} />;
  const choose = (id: number, isChosen: boolean) =>
    change({ keyIds: isChosen ? [...draft.keyIds, id] : draft.keyIds.filter((one) => one !== id) });
  const hasNone = keys.length === 0;
  return (
    <fieldset class="field">
      <legend>{t.create.key}</legend>
      <div class="keylist">
        {keys.map(({ id, name, public_key }) => (
          <Check
            key={id}
            label={name}
            hint={shortKey(public_key)}
            checked={draft.keyIds.includes(id)}
            onChange={(isChosen) => choose(id, isChosen)}
          />
        ))}
      </div>
      {hasNone || isPasting ? (
        <>
          <TextField
            label={t.create.pasteKey}
            hint={t.create.pasteHint}
            error={error}
            rows={3}
            value={draft.pasted}
            onInput={(pasted) => change({ pasted })}
          />
          {hasNone && (
            <>
              <p class="hint">{t.create.makeKey}</p>
              <Code text={t.create.keyCommand} what={t.create.theKeyCommand} />
            </>
          )}
        </>
      ) : (
        <div class="row wrap">
          <Button kind="bare" onClick={() => setPasting(true)}>
            {t.create.addAnother}
          </Button>
          {error !== undefined && <span class="wrong">{error}</span>}
        </div>
      )}
    </fieldset>
  );
}

/** The kind of a key and its last characters. */
export function shortKey(key: string): string {
  const [kind = '', data = ''] = key.split(/\s+/);
  return `${kind} …${data.slice(-12)}`;
}
