/** `troupe notify`: the notification service alone, beside a platform on the same database. */
import { type NotifyDeps, notifyNumbers } from '../../../actors/notify/deps.ts';
import { startNotify } from '../../../actors/notify/service.ts';
import type { Placement } from '../../../actors/service/placement.ts';
import type { Service } from '../../../proto/endpoint.ts';
import { notifyMetrics } from '../../observability/metrics.ts';
import type { Role, RoleParts } from './role.ts';

export const NOTIFY: Role = {
  name: 'notify',
  title: 'The notification service',
  logName: 'notify',
  needs: [],
  holds: 'events',
  open: async (parts) => ({ service: await openNotify(parts, parts.placement) }),
};

/** Starts the service; without a placement all users are in this process. `overrides` replace its usual parts. */
export function openNotify(
  parts: RoleParts,
  placement: Placement | undefined,
  overrides: Partial<NotifyDeps> = {},
): Promise<Service> {
  const { db, bus, clock, log, metrics } = parts;
  const numbers = overrides.numbers ?? notifyNumbers();
  notifyMetrics(metrics.registry, numbers);
  return startNotify(parts.system, { db, bus, clock, numbers, placement, log, ...overrides });
}
