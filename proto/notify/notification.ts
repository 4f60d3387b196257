/** Notifications on the bus: subject, stream, and the protobuf layout of notification.proto. */
import { randomUUID } from 'node:crypto';
import protobuf from 'protobufjs/light.js';
import type { StreamConfig } from '../ports/bus.ts';

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

/** The stream that holds them. */
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

/** Tags of the wire (protobuf, "Message Structure"): number, and type: 2 for texts and messages, 0 for numbers. */
const text = (number: number) => (number << 3) | 2;
const integer = (number: number) => number << 3;
const METADATA = text(1);
const USER_ID = text(2);
const TITLE = text(3);
const MESSAGE = text(4);
const LINK = text(5);
const CATEGORY = text(6);
const SCOPE = text(7);
const EVENT_ID = text(1);
const SOURCE = text(2);
const CREATED_AT = integer(3);

/**
 * Reads a notification. Throws when the bytes are none. Metadata that is absent, or not wholly ours, reads as empty: an
 * id taken from a foreign layout might be no id, and would make different events one. Field by field, because every
 * notification of the platform passes here, and so it costs a fifth of reading by the layout.
 */
export function decodeNotification(data: Uint8Array): Notification {
  const reader = protobuf.Reader.create(data);
  let [userId, title, message, link, category, scope] = ['', '', '', '', '', ''];
  let metadata = NO_METADATA;
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (tag === METADATA) metadata = decodeMetadata(reader.bytes());
    else if (tag === USER_ID) userId = reader.string();
    else if (tag === TITLE) title = reader.string();
    else if (tag === MESSAGE) message = reader.string();
    else if (tag === LINK) link = reader.string();
    else if (tag === CATEGORY) category = reader.string();
    else if (tag === SCOPE) scope = reader.string();
    else reader.skipType(tag & 7, 0, tag >>> 3);
  }
  return { userId, title, message, link, category, scope, metadata };
}

function decodeMetadata(data: Uint8Array): Notification['metadata'] {
  try {
    const reader = protobuf.Reader.create(data);
    let [eventId, source, createdAt] = ['', '', 0];
    while (reader.pos < reader.len) {
      const tag = reader.uint32();
      if (tag === EVENT_ID) eventId = reader.string();
      else if (tag === SOURCE) source = reader.string();
      else if (tag === CREATED_AT) createdAt = Number(reader.int64());
      else return NO_METADATA;
    }
    const isOurs = eventId !== '' && source !== '' && createdAt > 0;
    return isOurs ? { eventId, source, createdAt } : NO_METADATA;
  } catch {
    return NO_METADATA;
  }
}
