/** A webhook in the list: its state in words, a test, and its last answers. */
import { FlaskConical, KeyRound, Pause, Pencil, Play, Trash } from 'lucide';
import { useEffect, useState } from 'preact/hooks';
import type { CallReply } from '../../../../client/index.ts';
import { now } from '../../../core/clock.ts';
import { type Deed, useDeed } from '../../../core/deed.ts';
import { ago, count, exactTime, span } from '../../../core/format.ts';
import { call, client } from '../../../core/platform.ts';
import { type LoadedData, useLoaded } from '../../../core/resource.ts';
import { Button } from '../../../parts/button.tsx';
import { Menu } from '../../../parts/menu.tsx';
import { Failure, Loading, Note } from '../../../parts/note.tsx';
import { RowOf } from '../../../parts/rows.tsx';
import { Status, type StatusShape } from '../../../parts/status.tsx';
import { Summary } from '../../../parts/summary.tsx';
import { toast } from '../../../parts/toast.tsx';
import { t } from '../../../text/text.ts';
import { categoriesText } from './categories.tsx';
import { hostOf, type ListedWebhook, type WebhookQuestion } from './questions.tsx';

const SHAPES: Readonly<Record<ListedWebhook['status'], StatusShape>> = {
  ok: 'verified',
  retrying: 'warn',
  failing: 'failed',
  disabled: 'stopped',
};
/** How long the answer to a test is looked for. */
const LOOKS = 15;
const LOOK_AGAIN_MS = 1000;

interface WebhookRowProps {
  readonly webhook: ListedWebhook;
  readonly onChanged: () => void;
  readonly onAsk: (what: WebhookQuestion) => void;
}

export function WebhookRow({ webhook, onChanged, onAsk }: WebhookRowProps) {
  const { id, url, enabled, categories, waiting, failing_since } = webhook;
  const [isOpen, setOpen] = useState(false);
  const [tested, setTested] = useState<string>();
  const test = useDeed(async () => {
    const { event_id } = await call('testWebhook', { params: { id } });
    setTested(event_id);
    setOpen(true);
    toast(t.webhooks.tested);
  });
  const enable = useSwitch(webhook, onChanged);
  const ask = (what: WebhookQuestion) => () => onAsk(what);
  const pause = waiting > 0 ? ask('pause') : () => void enable.run(false);
  return (
    <RowOf
      name={<span class="mono">{url}</span>}
      about={[
        <Status shape={SHAPES[webhook.status]}>{wordOf(webhook)}</Status>,
        ...(failing_since === null ? [] : [t.webhooks.since(span(now.value - Date.parse(failing_since)))]),
        categoriesText(categories),
        ...(waiting === 0 ? [] : [t.delivery.waiting(waiting)]),
      ]}
      actions={
        <>
          <Button
            icon={FlaskConical}
            onClick={() => void test.run()}
            busy={test.isBusy}
            reason={enabled ? undefined : t.webhooks.isPaused}
          >
            {t.webhooks.test}
          </Button>
          <Menu
            label={t.webhooks.more(url)}
            items={[
              enabled
                ? { name: t.webhooks.pause, icon: Pause, asks: waiting === 0, onClick: pause }
                : { name: t.webhooks.resume, icon: Play, asks: true, onClick: () => void enable.run(true) },
              { name: t.webhooks.change, icon: Pencil, onClick: ask('change') },
              { name: t.webhooks.rotate, icon: KeyRound, onClick: ask('rotate') },
              { name: t.webhooks.delete, icon: Trash, isDanger: true, onClick: ask('delete') },
            ]}
          />
        </>
      }
    >
      <div class="stack tight">
        <WhyStopped webhook={webhook} />
        <Failure error={test.error ?? enable.error} />
        <details class="answers" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
          <Summary>
            {t.webhooks.answers}
            <span class="sr">{t.webhooks.of(url)}</span>
          </Summary>
          {isOpen && <Answers webhook={webhook} tested={tested} onCome={onChanged} />}
        </details>
      </div>
    </RowOf>
  );
}

/** Pauses it, or goes on. */
function useSwitch({ id, url }: ListedWebhook, onChanged: () => void): Deed<[boolean]> {
  return useDeed(async (isOn: boolean) => {
    await call('updateWebhook', { params: { id }, body: { enabled: isOn } });
    toast(isOn ? t.webhooks.resumed(hostOf(url)) : t.webhooks.paused(hostOf(url)));
    onChanged();
  });
}

function wordOf({ status, disabled_because }: ListedWebhook): string {
  const isOwn = disabled_because === 'user' || disabled_because === '';
  return status === 'disabled' && !isOwn ? t.webhooks.stopped : t.webhooks.status[status];
}

function WhyStopped({ webhook: { disabled_because: why } }: { readonly webhook: ListedWebhook }) {
  return why === 'gone' || why === 'dead' ? <Note tone="bad">{t.webhooks.why[why]}</Note> : null;
}

type WebhookAnswers = CallReply<'listWebhookDeliveries'>;

interface AnswersProps {
  readonly webhook: ListedWebhook;
  /** The event of a test whose answer is waited for. */
  readonly tested: string | undefined;
  readonly onCome: () => void;
}

function Answers({ webhook: { id }, tested, onCome }: AnswersProps) {
  const answers = useLoaded((signal) => client.call('listWebhookDeliveries', { params: { id } }, { signal }), [tested]);
  const list = answers.value;
  const isAwaited = useAwaited(answers, tested, onCome);
  return (
    <>
      <Loading data={answers} tall={36} />
      {list?.length === 0 && !isAwaited && <p class="faint tiny">{t.webhooks.noAnswers}</p>}
      {list !== undefined && (list.length > 0 || isAwaited) && (
        <ul aria-live="polite">
          {isAwaited && (
            <li>
              <Status shape="starting">{t.webhooks.tested}</Status>
            </li>
          )}
          {list.map((answer) => (
            <AnswerLine key={`${answer.event_id} ${answer.attempt}`} answer={answer} />
          ))}
        </ul>
      )}
    </>
  );
}

/** Looks again until the answer to a test is there. Returns whether it is still waited for. */
function useAwaited(answers: LoadedData<WebhookAnswers>, tested: string | undefined, onCome: () => void): boolean {
  const [looks, setLooks] = useState(0);
  const list = answers.value;
  const isThere = list?.some(({ event_id }) => event_id === tested) ?? false;
  const isAwaited = tested !== undefined && !isThere && looks < LOOKS;
  useEffect(() => setLooks(0), [tested]);
  useEffect(() => {
    if (!isAwaited || list === undefined) return;
    const timer = setTimeout(() => {
      setLooks(looks + 1);
      answers.reload();
    }, LOOK_AGAIN_MS);
    return () => clearTimeout(timer);
  }, [isAwaited, list, looks]);
  useEffect(() => {
    if (isThere) onCome();
  }, [isThere]);
  return isAwaited;
}

function AnswerLine({ answer: { at, status, ms, error, attempt } }: { readonly answer: WebhookAnswers[number] }) {
  const time = Date.parse(at);
  const took = count(ms);
  return (
    <li>
      <Status shape={error === '' ? 'verified' : 'failed'}>
        {status === null ? `${t.webhooks.noAnswer} ${t.webhooks.after(took)}` : t.webhooks.took(status, took)}
      </Status>
      <span class="try">{attempt > 1 && t.webhooks.attempt(attempt)}</span>
      <time dateTime={at} title={exactTime(time)}>
        {ago(time, now.value)}
      </time>
      {error !== '' && <p>{error}</p>}
    </li>
  );
}
