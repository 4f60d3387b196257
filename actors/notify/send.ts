/** What operators tell people by command: through the outbox, so that it arrives even if the platform does not run. */
import { z } from 'zod';
import { Refusal } from '../../proto/errors.ts';
import { notificationEvent } from '../../proto/notify/notification.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import { auditOperator } from '../../storage/audit.ts';
import type { Db } from '../../storage/db.ts';
import { allRecipients, recipientByName } from '../../storage/notify/notifications.ts';
import { appendAll } from '../../storage/outbox.ts';
import { LONGEST } from './intake-rules.ts';

/** Events of one statement. */
const STEP = 1000;

const text = (longest: number) =>
  z
    .string()
    .max(longest, `must be at most ${longest} characters`)
    .refine((value) => !value.includes('\0'), 'must not contain NUL');
const required = (longest: number) => text(longest).min(1, 'must not be empty');

const noticeSchema = z.object({
  title: required(LONGEST.title),
  message: required(LONGEST.message),
  link: text(LONGEST.link),
  category: text(LONGEST.category),
  scope: text(LONGEST.scope),
});

/** What is to be told. */
type Notice = z.output<typeof noticeSchema>;

/** Tells a user by name, or everybody. Returns to how many. Refuses `invalid_request` and `not_found` (the name). */
export async function sendNotice(
  db: Db,
  clock: Clock,
  to: { readonly username: string } | 'everybody',
  notice: Notice,
): Promise<number> {
  const parsed = noticeSchema.safeParse(notice);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new Refusal('invalid_request', { message: `The ${issue?.path.join('.')} ${issue?.message}.` });
  }
  return db.tx(async (tx) => {
    const found = to === 'everybody' ? await allRecipients(tx) : [await recipientByName(tx, to.username)];
    const userIds = found.filter((id) => id !== undefined);
    if (to !== 'everybody' && userIds.length === 0)
      throw new Refusal('not_found', { message: `There is no user ${to.username}.` });
    const events = userIds.map((userId) => notificationEvent('operator', clock.now(), { userId, ...parsed.data }));
    for (let at = 0; at < events.length; at += STEP) await appendAll(tx, events.slice(at, at + STEP));
    const { title, category } = parsed.data;
    const target = to === 'everybody' ? '' : (userIds[0] ?? '');
    await auditOperator(tx, 'notification.send', target, { title, category, users: userIds.length });
    return userIds.length;
  });
}
