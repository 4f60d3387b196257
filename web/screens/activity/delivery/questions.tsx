/** What is asked before something is done about a webhook. */
import { useState } from 'preact/hooks';
import type { CallReply } from '../../../../client/index.ts';
import { curlLine, troupeLine } from '../../../core/command.ts';
import { fieldError, unlessGone, useDeed } from '../../../core/deed.ts';
import { call } from '../../../core/platform.ts';
import { AsCommand } from '../../../parts/copy.tsx';
import { AnswerButtons, Confirm, Dialog } from '../../../parts/dialog.tsx';
import { TextField } from '../../../parts/field.tsx';
import { FormDialog, FormFailure } from '../../../parts/form.tsx';
import { Failure } from '../../../parts/note.tsx';
import { toast } from '../../../parts/toast.tsx';
import { t } from '../../../text/text.ts';
import { CategoriesField, type ChosenCategories, chosenOf, reasonOf } from './categories.tsx';

export type ListedWebhook = CallReply<'listWebhooks'>[number];

/** What can be asked about one. */
export type WebhookQuestion = 'change' | 'pause' | 'rotate' | 'delete';

interface WebhookQuestionProps {
  readonly webhook: ListedWebhook;
  readonly onClose: () => void;
  /** With a secret that is to be shown. */
  readonly onDone: (secret?: { readonly url: string; readonly text: string }) => void;
}

/** What an address is called in a sentence. */
export function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).hostname : url;
}

/** A new webhook, or `webhook` otherwise. */
export function EditWebhook({ webhook, onClose, onDone }: Partial<WebhookQuestionProps> & EditEnds) {
  const [url, setUrl] = useState(webhook?.url ?? '');
  const [chosen, setChosen] = useState<ChosenCategories>(chosenOf(webhook?.categories ?? []));
  const body = { url: url.trim(), categories: [...(chosen ?? [])] };
  const deed = useDeed(async () => {
    if (webhook !== undefined) {
      await call('updateWebhook', { params: { id: webhook.id }, body });
      toast(t.webhooks.changed);
      return onDone();
    }
    const { secret } = await call('addWebhook', { body });
    toast(t.webhooks.added(hostOf(body.url)));
    onDone({ url: body.url, text: secret });
  });
  const only = chosen === undefined || chosen.length === 0 ? [] : ['--category', chosen.join(',')];
  return (
    <FormDialog
      title={webhook === undefined ? t.webhooks.add : t.webhooks.changeTitle}
      verb={webhook === undefined ? t.webhooks.add : t.webhooks.save}
      deed={deed}
      reason={reasonOf(chosen)}
      onClose={onClose}
    >
      <TextField
        label={t.webhooks.url}
        hint={t.webhooks.urlHint}
        error={fieldError(deed.error, 'url')}
        placeholder="https://"
        value={url}
        onInput={setUrl}
        attributes={{ required: true, maxLength: 2048, inputMode: 'url', autocomplete: 'off', autofocus: true }}
      />
      <CategoriesField chosen={chosen} onChange={setChosen} />
      {webhook === undefined && <p class="faint small">{t.webhooks.signedBy}</p>}
      <FormFailure of={deed} />
      {webhook === undefined && (
        <AsCommand
          troupe={troupeLine('webhook', 'add', body.url === '' ? 'URL' : body.url, ...only)}
          curl={curlLine('POST', '/api/notifications/webhooks', body)}
        />
      )}
    </FormDialog>
  );
}

type EditEnds = Pick<WebhookQuestionProps, 'onClose' | 'onDone'>;

function PauseWebhook({ webhook: { id, url, waiting }, onClose, onDone }: WebhookQuestionProps) {
  const deed = useDeed(async () => {
    await call('updateWebhook', { params: { id }, body: { enabled: false } });
    toast(t.webhooks.paused(hostOf(url)));
    onDone();
  });
  return (
    <Confirm title={t.webhooks.pauseTitle(hostOf(url))} verb={t.webhooks.pause} deed={deed} onClose={onClose}>
      <p class="dim">{t.webhooks.pauseLead(t.delivery.waiting(waiting))}</p>
      <AsCommand troupe={troupeLine('webhook', 'disable', url)} />
    </Confirm>
  );
}

function RotateWebhook({ webhook: { id, url }, onClose, onDone }: WebhookQuestionProps) {
  const deed = useDeed(async () => {
    const { secret } = await call('rotateWebhook', { params: { id } });
    onDone({ url, text: secret });
  });
  return (
    <Dialog title={t.webhooks.rotateTitle(hostOf(url))} onClose={onClose}>
      <p class="dim">{t.webhooks.rotateLead}</p>
      <Failure error={deed.error} />
      <AsCommand troupe={troupeLine('webhook', 'rotate', url)} />
      <AnswerButtons kind="main" verb={t.webhooks.rotate} deed={deed} onClose={onClose} />
    </Dialog>
  );
}

function DeleteWebhook({ webhook: { id, url }, onClose, onDone }: WebhookQuestionProps) {
  const deed = useDeed(async () => {
    await call('deleteWebhook', { params: { id } }).catch(unlessGone);
    toast(t.webhooks.deleted(hostOf(url)));
    onDone();
  });
  return (
    <Confirm title={t.webhooks.deleteTitle(hostOf(url))} verb={t.webhooks.delete} deed={deed} onClose={onClose}>
      <p class="dim">{t.webhooks.deleteLead}</p>
      <AsCommand troupe={troupeLine('webhook', 'rm', url)} />
    </Confirm>
  );
}

const QUESTIONS = { pause: PauseWebhook, rotate: RotateWebhook, delete: DeleteWebhook } as const;

/** Asks what cannot be undone. */
export function AskAboutWebhook({ what, ...props }: WebhookQuestionProps & { readonly what: keyof typeof QUESTIONS }) {
  const Question = QUESTIONS[what];
  return <Question {...props} />;
}
