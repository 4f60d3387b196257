/** Names of streams and consumers on the bus. */
import { userChanged } from './auth/endpoints.ts';
import type { ConsumerConfig, StreamConfig } from './ports/bus.ts';

/** News from the authentication service that others must not miss. */
export const AUTH_STREAM: StreamConfig = {
  name: 'AUTH',
  subjects: ['auth.>'],
  maxMessages: 100_000,
  maxBytes: 64 * 1024 * 1024,
  maxAgeMs: 24 * 3600 * 1000,
  duplicateWindowMs: 120_000,
};

/** Whether only the platform's own processes may speak on a subject: they seal it, and read nothing else there. */
export function isInternal(subject: string): boolean {
  return subject.startsWith('auth.');
}

/** What the cluster monitor publishes: `cluster.metrics`, `cluster.pods` and the like. */
export const CLUSTER_STREAM: StreamConfig = {
  name: 'CLUSTER',
  subjects: ['cluster.>'],
  maxMessages: 1_000_000,
  maxBytes: 1024 ** 3,
  maxAgeMs: 7 * 86_400_000,
  duplicateWindowMs: 120_000,
};

/** The authentication service listens for changes of users that were made outside it. */
export const AUTH_CONSUMER: ConsumerConfig = {
  durable: 'auth-service',
  filter: userChanged.pattern,
  ackWaitMs: 30_000,
  maxDeliver: 5,
  maxAckPending: 256,
};

/** The notification service. While notifications are stored, those behind them are taken and read. */
export const NOTIFICATIONS_CONSUMER: ConsumerConfig = {
  durable: 'notification-service',
  ackWaitMs: 30_000,
  maxDeliver: 5,
  maxAckPending: 4000,
  batchesAtOnce: 32,
};

/**
 * What is sent to webhooks and by mail: it is kept in the database first, so a message is given back only while that
 * is away, for a day at a minute each.
 */
export const DELIVERIES_CONSUMER: ConsumerConfig = {
  durable: 'notification-deliveries',
  ackWaitMs: 30_000,
  maxDeliver: 1440,
  maxAckPending: 500,
};
