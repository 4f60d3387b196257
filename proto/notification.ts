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
  /** `compute`, `storage` and `auth` are in use. */
  readonly category: string;
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

const root = protobuf.Root.fromJSON(LAYOUT);
const layout = root.lookupType('troupe.Notification');
const metadataLayout = root.lookupType('troupe.EventMetadata');

/** The same message with its metadata unread: whatever another publisher put there must not cost its user the notification. */
const envelope = protobuf.Root.fromJSON({
  nested: {
    Envelope: {
      fields: { ...LAYOUT.nested.troupe.nested.Notification.fields, metadata: { type: 'bytes', id: 1 } },
    },
  },
}).lookupType('Envelope');

const decoded = z.object({
  userId: z.string().default(''),
  title: z.string().default(''),
  message: z.string().default(''),
  link: z.string().default(''),
  category: z.string().default(''),
  scope: z.string().default(''),
});
const decodedEnvelope = decoded.extend({ metadata: z.instanceof(Uint8Array).default(new Uint8Array()) });
const decodedMetadata = z.object({
  eventId: z.string().min(1),
  source: z.string().min(1),
  createdAt: z.number().min(1),
});

const NO_METADATA: Notification['metadata'] = { eventId: '', source: '', createdAt: 0 };

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

/**
 * Reads a notification. Throws when the bytes are none. Metadata that is absent, or not wholly ours, reads as empty: an id taken
 * from a foreign layout might be no id, and would make different events one.
 */
export function decodeNotification(data: Uint8Array): Notification {
  const { metadata, ...rest } = decodedEnvelope.parse(envelope.toObject(envelope.decode(data)));
  return { ...rest, metadata: decodeMetadata(metadata) };
}

function decodeMetadata(data: Uint8Array): Notification['metadata'] {
  if (data.byteLength === 0) return NO_METADATA;
  try {
    const object = metadataLayout.toObject(metadataLayout.decode(data), { longs: Number });
    const parsed = decodedMetadata.safeParse(object);
    // A field that is not ours would be lost on the way back.
    if (!parsed.success || metadataLayout.encode(metadataLayout.create(object)).finish().byteLength !== data.byteLength)
      return NO_METADATA;
    return parsed.data;
  } catch {
    return NO_METADATA;
  }
}
