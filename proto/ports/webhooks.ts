/** Where webhooks are: the only way in which the platform calls an address that a user chose. */
import { CodedError } from '../../lib/errors.ts';

/** What a receiver is sent. */
export interface WebhookRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Why there was no answer, by code: `message` is a sentence for the webhook's user. */
export class WebhookError extends CodedError<
  | 'forbidden' // the platform does not call this address
  | 'unreachable' // no such name, no connection, no valid certificate, or no answer
  | 'timeout' // no answer in time
> {}

/** Sends to webhooks. */
export interface WebhookSender {
  /**
   * Finds out whether the address may be called: its scheme, its port, and every address of its name. Rejects with
   * WebhookError.
   */
  check(url: string): Promise<void>;
  /**
   * Checks the address as `check` does, connects to what it has just checked, and sends. Redirects are answers, and
   * are not followed. Resolves with the HTTP status; rejects with WebhookError, or with the reason of `signal`.
   */
  send(request: WebhookRequest, signal: AbortSignal): Promise<number>;
}
