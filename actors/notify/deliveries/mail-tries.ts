/** Tries mails that are due, a few at once, of each user one at a time. */
import { MailError, type Mailer } from '../../../proto/ports/mailer.ts';
import { type ClaimedMail, claimMails, finishMail, type MailOutcome } from '../../../storage/notify/mail-tries.ts';
import type { NotifyDeps } from '../deps.ts';
import { HOUR_MS, mailOf, planMail } from './mail-rules.ts';
import { nextTry } from './webhook-rules.ts';

const MOST_AT_ONCE = 8;
/** When a try counts as lost: well after one has ended, which takes 30 s at most. */
const CLAIM_MS = 60_000;

/** The mails that this process sends. */
export class MailTries {
  readonly #deps: NotifyDeps;
  readonly #mailer: Mailer;
  readonly #signal: AbortSignal;
  readonly #onEnd: () => void;
  readonly #running = new Set<Promise<void>>();

  /** `onEnd`: one of them has ended. With `signal` none begins any more. */
  constructor(deps: NotifyDeps, mailer: Mailer, signal: AbortSignal, onEnd: () => void) {
    this.#deps = deps;
    this.#mailer = mailer;
    this.#signal = signal;
    this.#onEnd = onEnd;
  }

  /** Begins what is due, as far as there is room. Rejects with StorageError. */
  async begin(): Promise<void> {
    const { db, clock } = this.#deps;
    if (this.#running.size >= MOST_AT_ONCE || this.#signal.aborted) return;
    const now = clock.now();
    const claimed = await claimMails(db, {
      now: new Date(now),
      until: new Date(now + CLAIM_MS),
      most: MOST_AT_ONCE - this.#running.size,
      plan: (sentAt, waiting, oldest) => planMail(sentAt, waiting, oldest, now),
    });
    for (const mail of claimed) this.#start(mail);
  }

  /** Resolves once all of them have ended. */
  async idle(): Promise<void> {
    await Promise.all(this.#running);
  }

  #start(mail: ClaimedMail): void {
    const running = this.#try(mail)
      .catch((error: unknown) => {
        // It is due again when the claim is over.
        this.#deps.log.warn({ err: error, user: mail.userId }, 'a mail could not be finished');
      })
      .finally(() => {
        this.#running.delete(running);
        this.#onEnd();
      });
    this.#running.add(running);
  }

  async #try(mail: ClaimedMail): Promise<void> {
    const { db, clock, numbers } = this.#deps;
    const outcome = mail.items.length === 0 ? ({ kind: 'done' } as const) : await this.#send(mail);
    if (outcome.kind === 'done') numbers.mails += 1;
    else numbers.mailFailures += 1;
    const now = clock.now();
    await finishMail(db, mail, outcome, new Date(now), new Date(now - HOUR_MS));
  }

  async #send(mail: ClaimedMail): Promise<MailOutcome> {
    try {
      await this.#mailer.send(mailOf(mail, this.#mailer.domain));
      return { kind: 'done' };
    } catch (error) {
      if (!(error instanceof MailError)) throw error;
      const now = this.#deps.clock.now();
      const at = error.code === 'refused' ? undefined : nextTry(mail.attempt, mail.since.getTime(), now);
      return at === undefined
        ? { kind: 'dead', error: error.message }
        : { kind: 'again', dueAt: new Date(at), error: error.message };
    }
  }
}
