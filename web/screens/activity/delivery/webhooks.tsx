/** Webhooks: how each is, what it answered last, and what can be done about it. */
import { Webhook as WebhookIcon } from 'lucide';
import { useState } from 'preact/hooks';
import { client } from '../../../core/platform.ts';
import { useLoaded } from '../../../core/resource.ts';
import { AddButton } from '../../../parts/button.tsx';
import { Empty, Loading } from '../../../parts/note.tsx';
import { Panel } from '../../../parts/panel.tsx';
import { RowsOf } from '../../../parts/rows.tsx';
import { SecretDialog } from '../../../parts/secret.tsx';
import { t } from '../../../text/text.ts';
import { AskAboutWebhook, EditWebhook, hostOf, type ListedWebhook, type WebhookQuestion } from './questions.tsx';
import { WebhookRow } from './webhook-row.tsx';

interface WebhookSecret {
  readonly url: string;
  readonly text: string;
}

interface AskedWebhook {
  readonly webhook: ListedWebhook;
  readonly what: WebhookQuestion;
}

export function Webhooks() {
  const [isAdding, setAdding] = useState(false);
  const [asked, setAsked] = useState<AskedWebhook>();
  const [secret, setSecret] = useState<WebhookSecret>();
  const webhooks = useLoaded((signal) => client.call('listWebhooks', undefined, { signal }));
  const list = webhooks.value;
  const close = () => {
    setAdding(false);
    setAsked(undefined);
  };
  const done = (made?: WebhookSecret) => {
    webhooks.reload();
    setSecret(made);
    close();
  };
  return (
    <Panel
      title={t.webhooks.title}
      aside={<AddButton kind="bare" name={t.webhooks.add} onClick={() => setAdding(true)} />}
    >
      <Loading data={webhooks} tall={64} />
      {list !== undefined && (
        <RowsOf list={list} none={<Empty icon={WebhookIcon} title={t.webhooks.none} lead={t.webhooks.noneLead} />}>
          {(webhook) => (
            <WebhookRow
              key={webhook.id}
              webhook={webhook}
              onChanged={webhooks.reload}
              onAsk={(what) => setAsked({ webhook, what })}
            />
          )}
        </RowsOf>
      )}
      {isAdding && <EditWebhook onClose={close} onDone={done} />}
      {asked?.what === 'change' && <EditWebhook webhook={asked.webhook} onClose={close} onDone={done} />}
      {asked !== undefined && asked.what !== 'change' && (
        <AskAboutWebhook webhook={asked.webhook} what={asked.what} onClose={close} onDone={done} />
      )}
      {secret !== undefined && (
        <SecretDialog
          title={t.webhooks.made}
          lead={t.webhooks.madeLead}
          text={secret.text}
          what={t.webhooks.theSecret}
          file={`webhook-${hostOf(secret.url)}.txt`}
          onClose={() => setSecret(undefined)}
        />
      )}
    </Panel>
  );
}
