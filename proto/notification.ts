/** Notifications on the bus: subject, stream, and the protobuf layout of notification.proto (interface section 6.1). */
import { randomUUID } from 'node:crypto';
import protobuf from 'protobufjs/light.js';
import { z } from 'zod';
import type { StreamConfig } from './ports.ts';

/** A notification on its way to a user. */
export interface Notification {
  readonly userId: string;
  readonly title: string;
  readonly message: string;
  /** A path of the console; empty for none. */
  readonly link: string;
  readonly category: 'compute' | 'storage' | 'auth' | '';
  /** Empty unless the category has scopes. */
  readonly scope: string;
  readonly metadata: {
    /** Names the event for ever: a repeated delivery carries the same id. */
    readonly eventId: string;
    /** The service that published it. */
    readonly source: string;
    /** Unix ms. */
    readonly createdAt: number;
  };
}

/** The stream of interface section 6.1. */
export const NOTIFICATIONS_STREAM: StreamConfig = {
  name: 'NOTIFICATIONS',
  subjects: ['notify.>'],
  maxMessages: 1_000_000,
  maxBytes: 1024 ** 3,
  maxAgeMs: 7 * 86_400_000,
  duplicateWindowMs: 120_000,
};

/** The message layouts; test/proto compares them with notification.proto. */
export const LAYOUT = {
  nested: {
    troupe: {
      nested: {
        Notification: {
          oneofs: { _scope: { oneof: ['scope'] } },
          fields: {
            metadata: { type: 'EventMetadata', id: 1 },
            userId: { type: 'string', id: 2 },
            title: { type: 'string', id: 3 },
            message: { type: 'string', id: 4 },
            link: { type: 'string', id: 5 },
            category: { type: 'string', id: 6 },
            scope: { type: 'string', id: 7, options: { proto3_optional: true } },
          },
        },
        EventMetadata: {
          fields: {
            eventId: { type: 'string', id: 1 },
            source: { type: 'string', id: 2 },
            createdAt: { type: 'int64', id: 3 },
          },
        },
      },
    },
  },
};

const layout = protobuf.Root.fromJSON(LAYOUT).lookupType('troupe.Notification');

const decoded = z.object({
  userId: z.string().default(''),
  title: z.string().default(''),
  message: z.string().default(''),
  link: z.string().default(''),
  category: z.enum(['compute', 'storage', 'auth', '']).default(''),
  scope: z.string().default(''),
  metadata: z
    .object({
      eventId: z.string().default(''),
      source: z.string().default(''),
      createdAt: z.number().default(0),
    })
    .prefault({}),
});

/** The event of a notification, to be written to the outbox: `msgId` and `metadata.eventId` are one id. */
export function notificationEvent(
  source: string,
  createdAt: number,
  notification: Omit<Notification, 'metadata'>,
): { msgId: string; subject: string; data: Uint8Array } {
  // One token of the subject: `*`, `>` or a dot would make it somebody else's, or everybody's.
  if (!/^[A-Za-z0-9_-]+$/.test(notification.userId)) throw new TypeError('A notification is for one user, by id.');
  const eventId = randomUUID();
  return {
    msgId: eventId,
    subject: `notify.${notification.userId}`,
    data: encodeNotification({ ...notification, metadata: { eventId, source, createdAt } }),
  };
}

/** The bytes of a notification. */
export function encodeNotification(notification: Notification): Uint8Array {
  const { scope, ...rest } = notification;
  return layout.encode(layout.create(scope === '' ? rest : notification)).finish();
}

/** Reads a notification. Throws when the bytes are none. */
export function decodeNotification(data: Uint8Array): Notification {
  return decoded.parse(layout.toObject(layout.decode(data), { longs: Number }));
}
