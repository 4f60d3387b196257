/** Mail: off, waiting for its code, or on. */
import { Mail as MailIcon } from 'lucide';
import { useState } from 'preact/hooks';
import type { CallReply } from '../../../../client/index.ts';
import { troupeLine } from '../../../core/command.ts';
import { fieldError, useDeed } from '../../../core/deed.ts';
import { call, client } from '../../../core/platform.ts';
import { useLoaded } from '../../../core/resource.ts';
import { Button } from '../../../parts/button.tsx';
import { AsCommand } from '../../../parts/copy.tsx';
import { TextField } from '../../../parts/field.tsx';
import { Form, FormDialog, FormFailure } from '../../../parts/form.tsx';
import { Failure, Loading, Note } from '../../../parts/note.tsx';
import { Panel } from '../../../parts/panel.tsx';
import { RowOf, Rows } from '../../../parts/rows.tsx';
import { Status } from '../../../parts/status.tsx';
import { toast } from '../../../parts/toast.tsx';
import { t } from '../../../text/text.ts';
import { CategoriesField, type ChosenCategories, categoriesText, chosenOf, reasonOf } from './categories.tsx';

type MailState = CallReply<'getMail'>;

export function MailPanel() {
  const mail = useLoaded((signal) => client.call('getMail', undefined, { signal }));
  const { value } = mail;
  return (
    <Panel title={t.mail.title}>
      <Loading data={mail} tall={64} />
      {value !== undefined && <MailBody mail={value} onChange={mail.set} />}
    </Panel>
  );
}

interface MailBodyProps {
  readonly mail: MailState;
  readonly onChange: (mail: MailState) => void;
}

function MailBody({ mail, onChange }: MailBodyProps) {
  const { available, address, verified } = mail;
  if (!available && address === null) return <p class="inside faint small">{t.mail.unavailable}</p>;
  if (address === null) return <MailOff onChange={onChange} />;
  return <MailOf mail={mail} address={address} isProven={verified} onChange={onChange} />;
}

function MailOff({ onChange }: Pick<MailBodyProps, 'onChange'>) {
  const [address, setAddress] = useState('');
  const deed = useDeed(async () => onChange(await call('setMail', { body: { address: address.trim() } })));
  return (
    <Form class="inside stack" deed={deed}>
      <p class="small dim">{t.mail.off}</p>
      <div class="inline">
        <TextField
          label={t.mail.address}
          error={fieldError(deed.error, 'address')}
          placeholder="ann@example.com"
          value={address}
          onInput={setAddress}
          attributes={{ required: true, maxLength: 254, inputMode: 'email', autocomplete: 'email' }}
        />
        <Button type="submit" icon={MailIcon} busy={deed.isBusy}>
          {t.mail.set}
        </Button>
      </div>
      <FormFailure of={deed} />
      <AsCommand troupe={troupeLine('mail', 'set', address.trim() === '' ? 'ADDRESS' : address.trim())} />
    </Form>
  );
}

interface MailOfProps extends MailBodyProps {
  readonly address: string;
  readonly isProven: boolean;
}

function MailOf({ mail, address, isProven, onChange }: MailOfProps) {
  const [isChanging, setChanging] = useState(false);
  const { categories, waiting, error } = mail;
  const off = useDeed(async () => {
    onChange(await call('setMail', { body: { address: null } }));
    toast(t.mail.isOff);
  });
  return (
    <Rows>
      <RowOf
        name={address}
        about={[
          isProven ? (
            <Status shape="verified">{t.mail.on}</Status>
          ) : (
            <Status shape="waiting">{t.mail.notProven}</Status>
          ),
          categoriesText(categories),
          ...(waiting === 0 ? [] : [t.delivery.waiting(waiting)]),
        ]}
        actions={
          <>
            <Button onClick={() => setChanging(true)}>{t.mail.change}</Button>
            <Button onClick={() => void off.run()} busy={off.isBusy}>
              {t.mail.turnOff}
            </Button>
          </>
        }
      >
        <div class="stack tight">
          <Failure error={off.error} />
          {error !== '' && <Note tone="warn">{t.mail.error(error)}</Note>}
          {isProven ? (
            <p class="faint tiny">{t.mail.burst}</p>
          ) : (
            <ProveMail address={address} categories={categories} onChange={onChange} />
          )}
        </div>
        {isChanging && <ChangeMail mail={mail} onChange={onChange} onClose={() => setChanging(false)} />}
      </RowOf>
    </Rows>
  );
}

interface ProveMailProps extends Pick<MailBodyProps, 'onChange'> {
  readonly address: string;
  readonly categories: readonly string[];
}

function ProveMail({ address, categories, onChange }: ProveMailProps) {
  const [code, setCode] = useState('');
  const verify = useDeed(async () => {
    onChange(await call('verifyMail', { body: { code: code.trim() } }));
    toast(t.mail.verified);
  });
  const again = useDeed(async () => {
    onChange(await call('setMail', { body: { address, categories: [...categories] } }));
    toast(t.mail.sentAgain);
  });
  const submit = (event: Event) => {
    event.preventDefault();
    again.clear();
    void verify.run();
  };
  return (
    <form class="stack tight" onSubmit={submit}>
      <p class="small dim">{t.mail.sent(address)}</p>
      <div class="inline">
        <div class="code-field">
          <TextField
            label={t.mail.code}
            error={fieldError(verify.error, 'code')}
            value={code}
            onInput={setCode}
            attributes={{ required: true, maxLength: 6, inputMode: 'numeric', autocomplete: 'one-time-code' }}
          />
        </div>
        <Button type="submit" kind="main" busy={verify.isBusy}>
          {t.mail.verify}
        </Button>
        <Button kind="bare" onClick={() => void again.run()} busy={again.isBusy}>
          {t.mail.again}
        </Button>
      </div>
      <FormFailure of={verify} />
      <Failure error={again.error} />
    </form>
  );
}

function ChangeMail({ mail, onChange, onClose }: MailBodyProps & { readonly onClose: () => void }) {
  const [address, setAddress] = useState(mail.address ?? '');
  const [chosen, setChosen] = useState<ChosenCategories>(chosenOf(mail.categories));
  const deed = useDeed(async () => {
    onChange(await call('setMail', { body: { address: address.trim(), categories: [...(chosen ?? [])] } }));
    toast(t.mail.saved);
    onClose();
  });
  return (
    <FormDialog title={t.mail.changeTitle} verb={t.mail.save} deed={deed} reason={reasonOf(chosen)} onClose={onClose}>
      <TextField
        label={t.mail.address}
        hint={t.mail.addressHint}
        error={fieldError(deed.error, 'address')}
        value={address}
        onInput={setAddress}
        attributes={{ required: true, maxLength: 254, inputMode: 'email', autocomplete: 'email', autofocus: true }}
      />
      <CategoriesField chosen={chosen} onChange={setChosen} />
      <FormFailure of={deed} />
    </FormDialog>
  );
}
