/** `troupe notify`: the notification service alone, beside a platform on the same database. */
import type { KeyObject } from 'node:crypto';
import { type DeliveryDeps, type NotifyDeps, notifyNumbers } from '../../../actors/notify/deps.ts';
import { startNotify } from '../../../actors/notify/service.ts';
import type { Placement } from '../../../actors/service/placement.ts';
import type { Service } from '../../../proto/endpoint.ts';
import { parseSealKey } from '../../../storage/seal.ts';
import { webhookSender } from '../../../transports/clients/webhooks/sender.ts';
import type { Environment } from '../../config/config.ts';
import { userLimitsOf } from '../../config/user-limits.ts';
import { notifyMetrics } from '../../observability/metrics.ts';
import type { Role, RoleParts } from './role.ts';

export const NOTIFY: Role = {
  name: 'notify',
  title: 'The notification service',
  logName: 'notify',
  needs: [],
  holds: 'events',
  open: async (parts) => {
    const { ENCRYPTION_KEY } = parts.environment;
    const sealKey = ENCRYPTION_KEY === undefined ? undefined : parseSealKey(ENCRYPTION_KEY);
    if (sealKey === undefined) parts.log.warn({}, 'without ENCRYPTION_KEY this process sends no webhooks and no mail');
    return { service: await openNotify(parts, parts.placement, sealKey) };
  },
};

/**
 * Starts the service; without a placement all users are in this process. `sealKey`: ENCRYPTION_KEY, without which
 * nothing leaves the platform. `overrides` replace its usual parts.
 */
export async function openNotify(
  parts: RoleParts,
  placement: Placement | undefined,
  sealKey: KeyObject | undefined,
  overrides: Partial<NotifyDeps> = {},
): Promise<Service> {
  const { db, bus, clock, log, metrics, environment, domain } = parts;
  const numbers = overrides.numbers ?? notifyNumbers();
  notifyMetrics(metrics.registry, numbers);
  const deliveries = sealKey && (await deliveriesOf(environment, domain.toLowerCase(), sealKey));
  const userLimits = userLimitsOf(environment);
  return startNotify(parts.system, { db, bus, clock, numbers, placement, log, userLimits, deliveries, ...overrides });
}

/** How notifications leave the platform. */
async function deliveriesOf(environment: Environment, domain: string, sealKey: KeyObject): Promise<DeliveryDeps> {
  const { WEBHOOK_ALLOW, DNS_RESOLVERS, SMTP_URL: url, SMTP_FROM: from, SMTP_INSECURE } = environment;
  const isPlainAllowed = SMTP_INSECURE === 'allow';
  return {
    sealKey,
    sender: webhookSender({ allowed: WEBHOOK_ALLOW ?? (() => false), servers: DNS_RESOLVERS ?? [] }),
    mailer:
      url === undefined || from === undefined
        ? undefined
        : (await import('../../../transports/clients/mail/smtp.ts')).smtpMailer({ url, from, domain, isPlainAllowed }),
  };
}
