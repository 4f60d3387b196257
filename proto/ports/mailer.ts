/** The operator's mail server. */
import { CodedError } from '../../lib/errors.ts';

/** One plain text mail to one address. */
export interface Mail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  /** Names the mail for ever, without brackets and domain: a mail that is sent again has the same. */
  readonly id: string;
}

/** Why a mail was not taken, by code: `message` is a sentence for its user, without anything secret. */
export class MailError extends CodedError<
  | 'refused' // the server will never take it (SMTP 5xx)
  | 'unavailable' // it may take it later
> {}

/** Hands mail to the server. */
export interface Mailer {
  /** Whom mails are from: the platform's name. */
  readonly domain: string;
  /** Resolves once the server has taken it. Rejects with MailError. */
  send(mail: Mail): Promise<void>;
}
