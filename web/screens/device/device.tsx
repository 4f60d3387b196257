/**
 * Approves the login of a program. It shows who asks, and does nothing that somebody has not pressed a button for.
 */
import { useEffect, useState } from 'preact/hooks';
import type { CallReply } from '../../../client/index.ts';
import { now } from '../../core/clock.ts';
import { useDeed } from '../../core/deed.ts';
import { span } from '../../core/format.ts';
import { call } from '../../core/platform.ts';
import { personNow } from '../../core/session.ts';
import { Button } from '../../parts/button.tsx';
import { TextField } from '../../parts/field.tsx';
import { Form } from '../../parts/form.tsx';
import { Failure, Note } from '../../parts/note.tsx';
import { Page } from '../../parts/page.tsx';
import { Facts, Panel } from '../../parts/panel.tsx';
import { t } from '../../text/text.ts';

type AskedLogin = CallReply<'approveDevice'>;

export function Device() {
  const [code, setCode] = useState(codeInAddress);
  const [asked, setAsked] = useState<AskedLogin>();
  const [ended, setEnded] = useState<string>();
  useEffect(() => {
    // The command line opens the same tab again with another code.
    const look = () => {
      setCode(codeInAddress());
      setAsked(undefined);
      setEnded(undefined);
    };
    addEventListener('hashchange', look);
    return () => removeEventListener('hashchange', look);
  }, []);
  const decide = (decision: 'show' | 'approve' | 'refuse') =>
    call('approveDevice', { body: { user_code: code.trim(), decision } });
  const show = useDeed(async () => setAsked(await decide('show')));
  const approve = useDeed(async () => {
    await decide('approve');
    setEnded(t.device.approved);
  });
  const refuse = useDeed(async () => {
    await decide('refuse');
    setEnded(t.device.refused);
  });
  return (
    <Page title={t.device.title} lead={t.device.lead} narrow>
      {ended !== undefined ? (
        <Note tone="ok">{ended}</Note>
      ) : asked === undefined ? (
        <Panel>
          <Form class="inside stack" deed={show}>
            <TextField
              label={t.device.code}
              hint={t.device.codeHint}
              value={code}
              onInput={setCode}
              big
              attributes={{ name: 'code', required: true, maxLength: 16, autocomplete: 'off', autofocus: true }}
            />
            <Failure error={show.error} />
            <div class="row">
              <Button type="submit" kind="main" busy={show.isBusy}>
                {t.device.go}
              </Button>
            </div>
          </Form>
        </Panel>
      ) : (
        <div class="stack">
          <p>{t.device.asks(personNow()?.username ?? '')}</p>
          <AboutLogin code={code} asked={asked} />
          <Note tone="warn">{t.device.check}</Note>
          <Failure error={approve.error ?? refuse.error} />
          <div class="row">
            <Button kind="main" onClick={() => void approve.run()} busy={approve.isBusy}>
              {t.device.approve}
            </Button>
            <Button onClick={() => void refuse.run()} busy={refuse.isBusy}>
              {t.device.refuse}
            </Button>
          </div>
        </div>
      )}
    </Page>
  );
}

/** What the command line put behind the address. */
function codeInAddress(): string {
  return location.hash.replace(/[^\w-]/g, '');
}

function AboutLogin({ code, asked }: { readonly code: string; readonly asked: AskedLogin }) {
  return (
    <Facts
      of={[
        [t.device.code, <b class="mono">{code.trim().toUpperCase()}</b>],
        [t.device.machine, <span class="machine">{asked.name}</span>],
        [t.device.address, <span class="mono">{asked.address}</span>],
        [t.device.asked, t.device.ago(span(now.value - Date.parse(asked.created_at)))],
      ]}
    />
  );
}
