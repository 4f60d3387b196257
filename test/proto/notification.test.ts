import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import protobuf from 'protobufjs';
import {
  decodeNotification,
  encodeNotification,
  LAYOUT,
  type Notification,
  notificationEvent,
} from '../../proto/notify/notification.ts';
import { projectRoot } from '../support/project.ts';

const notification: Notification = {
  userId: 'abcdefghijk1',
  title: 'Container started',
  message: '„web“ runs 🚀',
  link: '/containers/x',
  category: 'compute',
  scope: '',
  metadata: { eventId: 'e1', source: 'compute', createdAt: Date.UTC(2030, 0, 1) },
};

test('the layout in code is the one in notification.proto', async () => {
  const text = await readFile(join(projectRoot, 'proto/notify/notification.proto'), 'utf8');
  const written = protobuf.parse(text, { keepCase: false }).root.lookup('troupe.Notification');
  const coded = protobuf.Root.fromJSON(LAYOUT).lookup('troupe.Notification');
  assert.ok(written instanceof protobuf.Type && coded instanceof protobuf.Type);
  for (const [ours, theirs] of [
    [coded, written],
    [coded.parent?.lookup('EventMetadata'), written.parent?.lookup('EventMetadata')],
  ]) {
    assert.ok(ours instanceof protobuf.Type && theirs instanceof protobuf.Type);
    const fields = (type: protobuf.Type) => type.fieldsArray.map(({ id, name, type: kind }) => [id, name, kind]);
    assert.deepEqual(fields(ours), fields(theirs));
  }
});

test('what is encoded is decoded, with and without a scope', () => {
  assert.deepEqual(decodeNotification(encodeNotification(notification)), notification);
  const scoped: Notification = { ...notification, category: 'storage', scope: 'photos' };
  assert.deepEqual(decodeNotification(encodeNotification(scoped)), scoped);
});

test('the field numbers are those that publishers in other languages use', () => {
  const bytes = encodeNotification({ ...notification, scope: 's' });
  const reader = protobuf.Reader.create(bytes);
  const numbers: number[] = [];
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    numbers.push(tag >>> 3);
    reader.skipType(tag & 7);
  }
  assert.deepEqual(numbers, [1, 2, 3, 4, 5, 6, 7]);
});

test('an event is for one user: nothing that means more in a subject is an id', () => {
  const { metadata: _, ...rest } = notification;
  for (const userId of ['*', '>', 'a.b', 'a.*', '', ' ', 'a b', 'a\r\nPUB x 0', 'a\0'])
    assert.throws(() => notificationEvent('auth', 1, { ...rest, userId }), TypeError, JSON.stringify(userId));
});

test('bytes that another encoder wrote, by hand', () => {
  const field = (number: number, text: string) => {
    const bytes = Buffer.from(text);
    return Buffer.concat([Buffer.of((number << 3) | 2, bytes.length), bytes]);
  };
  const strings = ['abcdefghijk1', 'Container started', '„web“ runs 🚀', '/containers/x', 'compute'];
  const metadata = Buffer.concat([
    field(1, 'e1'),
    field(2, 'compute'),
    Buffer.of(0x18, 0x80, 0xe8, 0x96, 0xd6, 0x8d, 0x37),
  ]);
  const bytes = Buffer.concat([
    Buffer.of(0x0a, metadata.length),
    metadata,
    ...strings.map((text, index) => field(index + 2, text)),
  ]);
  assert.deepEqual(Buffer.from(encodeNotification(notification)).toString('hex'), bytes.toString('hex'));
  assert.deepEqual(decodeNotification(bytes), notification);
});

test('an event goes to its user under its own id; what is no notification is refused', () => {
  const { metadata: _, ...rest } = notification;
  const event = notificationEvent('auth', 5, rest);
  assert.equal(event.subject, 'notify.abcdefghijk1');
  assert.deepEqual(decodeNotification(event.data).metadata, { eventId: event.msgId, source: 'auth', createdAt: 5 });
  for (const bad of [Uint8Array.of(0xff), Uint8Array.of(0x0a, 0x05, 1), encodeNotification(notification).subarray(3)])
    assert.throws(() => decodeNotification(bad));
  assert.deepEqual(decodeNotification(new Uint8Array()).userId, '');
});

test('metadata that is not wholly ours is ignored, and the notification is not', () => {
  const bytes = (metadata: (writer: protobuf.Writer) => protobuf.Writer) =>
    protobuf.Writer.create()
      .uint32(10)
      .bytes(metadata(protobuf.Writer.create()).finish())
      .uint32(26)
      .string('Title')
      .finish();
  const none = { eventId: '', source: '', createdAt: 0 };
  const ours = (writer: protobuf.Writer) => writer.uint32(10).string('e').uint32(18).string('s').uint32(24).int64(5);
  assert.deepEqual(decodeNotification(bytes(ours)).metadata, { eventId: 'e', source: 's', createdAt: 5 });
  for (const foreign of [
    (writer: protobuf.Writer) => writer.uint32(10).string('notification.created'),
    (writer: protobuf.Writer) => writer.uint32(10).string('e').uint32(18).string('s').uint32(26).string('5'),
    (writer: protobuf.Writer) => writer.uint32(8).int32(1).uint32(18).string('s').uint32(24).int64(5),
    (writer: protobuf.Writer) => ours(writer).uint32(34).string('more'),
    (writer: protobuf.Writer) => writer.uint32(255),
  ]) {
    const decoded = decodeNotification(bytes(foreign));
    assert.deepEqual([decoded.title, decoded.metadata], ['Title', none]);
  }
});
