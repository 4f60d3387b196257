/** `troupe webhook`, `mail`. */
import type { CallReply } from '../../client/index.ts';
import { clean } from './clean.ts';
import { ClientFailure } from './failure.ts';
import { pick } from './names.ts';
import { type ClientCommandOptions, type ClientSession, openSession } from './session.ts';

export interface WebhookOptions extends ClientCommandOptions {
  readonly category?: readonly string[];
}

export interface MailOptions extends WebhookOptions {
  readonly off?: boolean;
}

type Webhook = CallReply<'listWebhooks'>[number];

const categoriesText = (categories: readonly string[]) =>
  categories.length === 0 ? '(all)' : categories.map(clean).join(',');

/** The webhook that `text` means: its address or id, or a unique beginning of either. */
async function webhookOf({ client }: ClientSession, text: string): Promise<Webhook> {
  const webhooks = await client.call('listWebhooks');
  return pick(
    webhooks.map((webhook) => ({ ...webhook, name: webhook.url })),
    text,
    'webhook',
  );
}

/** Lists the webhooks. */
export async function listWebhooks(options: ClientCommandOptions): Promise<void> {
  const { client, out } = openSession(options);
  const webhooks = await client.call('listWebhooks');
  const rows = webhooks.map(({ id, url, categories, status, waiting }) => [
    clean(url),
    categoriesText(categories),
    out.status(status),
    String(waiting),
    id,
  ]);
  out.table(
    webhooks,
    ['URL', 'CATEGORIES', 'STATUS', 'WAITING', 'ID'],
    rows,
    'You have no webhook: `troupe webhook add URL` adds one.',
  );
}

/** Adds one. The secret alone is printed on standard output, now and never again. */
export async function addWebhook(url: string, options: WebhookOptions): Promise<void> {
  const session = openSession(options);
  const body = { url, categories: [...(options.category ?? [])] };
  printSecret(session, await session.client.call('addWebhook', { body }));
}

/** Makes a new secret, and prints it. */
export async function rotateWebhook(text: string, options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { id } = await webhookOf(session, text);
  printSecret(session, await session.client.call('rotateWebhook', { params: { id } }));
  if (!session.out.json) session.out.note('The secret before signs beside it for a day.');
}

function printSecret({ out }: ClientSession, webhook: CallReply<'addWebhook'>): void {
  out.secret(webhook, `The secret of ${clean(webhook.url)}`, webhook.secret);
}

/** Enables one again. */
export const enableWebhook = (text: string, options: ClientCommandOptions) => setEnabled(text, true, options);

/** Disables one, and drops what waits for it. */
export const disableWebhook = (text: string, options: ClientCommandOptions) => setEnabled(text, false, options);

async function setEnabled(text: string, isEnabled: boolean, options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { id, url } = await webhookOf(session, text);
  const answer = await session.client.call('updateWebhook', { params: { id }, body: { enabled: isEnabled } });
  session.out.done(answer, `${clean(url)} is ${isEnabled ? 'enabled' : 'disabled'}.`);
}

/** Deletes one. */
export async function removeWebhook(text: string, options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { id, url } = await webhookOf(session, text);
  const answer = await session.client.call('deleteWebhook', { params: { id } });
  session.out.done(answer, `${clean(url)} is deleted.`);
}

/** Sends a test. */
export async function testWebhook(text: string, options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { id, url } = await webhookOf(session, text);
  const answer = await session.client.call('testWebhook', { params: { id } });
  session.out.done(
    answer,
    `A test is sent (${answer.event_id}): \`troupe webhook deliveries ${clean(url)}\` shows the answer.`,
  );
}

/** Lists the last answers of one, newest first. */
export async function listDeliveries(text: string, options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { id } = await webhookOf(session, text);
  const answers = await session.client.call('listWebhookDeliveries', { params: { id } });
  const rows = answers.map(({ at, status, ms, attempt, error, event_id }) => [
    session.out.when(at),
    status === null ? 'none' : String(status),
    `${ms} ms`,
    String(attempt),
    clean(error),
    event_id,
  ]);
  const columns = ['WHEN', 'STATUS', 'TIME', 'TRY', 'ERROR', 'EVENT'];
  session.out.table(answers, columns, rows, 'Nothing was sent to it yet.');
}

/** Shows how mail is. */
export async function showMail(options: ClientCommandOptions): Promise<void> {
  const { client, out } = openSession(options);
  const mail = await client.call('getMail');
  const { available, address, categories, verified, waiting, error } = mail;
  const status = !available ? 'not available' : address === null ? 'off' : verified ? 'on' : 'not verified';
  out.details(mail, [
    ['mail', status],
    ['address', address ?? ''],
    ['categories', address === null ? '' : categoriesText(categories)],
    ['waiting', address === null ? '' : String(waiting)],
    ['last error', error],
  ]);
}

function mailText({ address, categories, verified }: CallReply<'getMail'>): string {
  if (address === null) return 'Mail is off.';
  if (!verified) return `A code was sent to ${address}: \`troupe mail verify CODE\` proves that you read it.`;
  return `Mail goes to ${address}, of categories ${categoriesText(categories)}.`;
}

/** Sets the address, or turns mail off. */
export async function setMail(address: string | undefined, options: MailOptions): Promise<void> {
  const isOff = options.off === true;
  if (isOff === (address !== undefined)) throw new ClientFailure('usage', 'Give an address, or --off.');
  const { client, out } = openSession(options);
  const body = { address: address ?? null, categories: [...(options.category ?? [])] };
  const mail = await client.call('setMail', { body });
  out.done(mail, mailText(mail));
}

/** Proves the address. */
export async function verifyMail(code: string, options: ClientCommandOptions): Promise<void> {
  const { client, out } = openSession(options);
  const mail = await client.call('verifyMail', { body: { code } });
  out.done(mail, mailText(mail));
}
