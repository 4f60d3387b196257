/** What users do about mail. */
import { randomUUID } from 'node:crypto';
import type { Call } from '../../../proto/endpoint.ts';
import { Refusal } from '../../../proto/errors.ts';
import { getMail, type MailView, setMail, verifyMail } from '../../../proto/notify/mail.ts';
import { MailError } from '../../../proto/ports/mailer.ts';
import { audit } from '../../../storage/audit.ts';
import { mailOf, proveAddress, setMailAddress, setMailCategories, turnMailOff } from '../../../storage/notify/mail.ts';
import { auditEntry } from '../../service/audit.ts';
import { callerOf, type Handler, handler } from '../../service/dispatch.ts';
import type { NotifyDeps } from '../deps.ts';
import { DELIVERIES_CHANNEL } from './deliveries.ts';
import { CODE_MS, CODE_TRIES, CODES_AN_HOUR, codeHash, codeMail, HOUR_MS, isSameHash, newCode } from './mail-rules.ts';

/** The handlers. Without a mail server what needs it is refused as `not_configured`. */
export function mailHandlers({ db, clock, deliveries, log }: NotifyDeps): readonly Handler<undefined>[] {
  const configured = () => {
    const { mailer, sealKey } = deliveries ?? {};
    if (mailer === undefined || sealKey === undefined)
      throw new Refusal('not_configured', { message: 'This platform sends no mail.' });
    return { mailer, sealKey };
  };
  const shown = async (call: Call): Promise<MailView> => {
    const row = await mailOf(db, callerOf(call).userId);
    const available = deliveries?.mailer !== undefined;
    return { available, address: null, categories: [], verified: false, waiting: 0, error: '', ...row };
  };

  /** Sends a code to an address that is to be proven. */
  const askForProof = async (call: Call, address: string, categories: readonly string[]): Promise<void> => {
    const { mailer, sealKey } = configured();
    const { userId } = callerOf(call);
    const [code, now] = [newCode(), clock.now()];
    await db.tx(async (tx) => {
      const isSet = await setMailAddress(tx, userId, address, categories, {
        hash: codeHash(sealKey, userId, code),
        until: new Date(now + CODE_MS),
        tries: CODE_TRIES,
        now: new Date(now),
        since: new Date(now - HOUR_MS),
        most: CODES_AN_HOUR,
      });
      if (!isSet)
        throw new Refusal('limit_reached', {
          message: `${CODES_AN_HOUR} codes were sent within an hour, which is the limit: wait before the next.`,
        });
      await audit(tx, auditEntry(call, 'mail.set', userId, { address, categories }));
    });
    try {
      await mailer.send(codeMail(address, code, mailer.domain, randomUUID()));
    } catch (error) {
      if (!(error instanceof MailError)) throw error;
      log.warn({ err: error }, 'a code could not be mailed');
      throw new Refusal('bad_gateway', { message: `The code could not be sent: ${error.message}`, cause: error });
    }
  };

  return [
    handler(getMail, async (_: undefined, call) => shown(call)),
    handler(setMail, async (_: undefined, call) => {
      const { userId } = callerOf(call);
      const { address, categories } = call.body;
      const row = await mailOf(db, userId);
      if (address !== null && !(row?.verified === true && row.address === address))
        await askForProof(call, address, categories);
      else
        await db.tx(async (tx) => {
          if (address === null) await turnMailOff(tx, userId);
          else await setMailCategories(tx, userId, categories);
          await audit(tx, auditEntry(call, 'mail.set', userId, address === null ? { address } : { categories }));
        });
      return shown(call);
    }),
    handler(verifyMail, async (_: undefined, call) => {
      const { sealKey } = configured();
      const { userId } = callerOf(call);
      const given = codeHash(sealKey, userId, call.body.code);
      const proof = await proveAddress(db, userId, (hash) => isSameHash(hash, given), new Date(clock.now()));
      if (proof === 'none')
        throw new Refusal('conflict', { message: 'No code is good now: set the address again to be sent one.' });
      if (proof === 'wrong') throw new Refusal('conflict', { message: 'The code is another one.' });
      await db.tx(async (tx) => {
        await audit(tx, auditEntry(call, 'mail.verify', userId));
        await tx.hint(DELIVERIES_CHANNEL);
      });
      return shown(call);
    }),
  ];
}
