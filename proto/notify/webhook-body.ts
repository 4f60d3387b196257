/** What a webhook is sent: its headers and its body, as Standard Webhooks 1.0 has them (standardwebhooks.com). */

/** Headers of each request. The id is the event's, and the same at each try. */
export const WEBHOOK_HEADERS = {
  id: 'webhook-id',
  /** Unix seconds of the try. */
  timestamp: 'webhook-timestamp',
  /** `v1,` and a base64 HMAC-SHA256 of `<id>.<timestamp>.<body>`, for each secret, separated by spaces. */
  signature: 'webhook-signature',
} as const;

/** What a secret begins with; its key follows in base64. */
export const SECRET_PREFIX = 'whsec_';

/** The body. */
export interface WebhookBody {
  readonly type: 'notification' | 'test';
  /** When it happened, ISO 8601. */
  readonly timestamp: string;
  readonly data: {
    readonly event_id: string;
    readonly user_id: string;
    readonly title: string;
    readonly message: string;
    readonly link: string;
    readonly category: string;
    readonly scope: string;
  };
}
