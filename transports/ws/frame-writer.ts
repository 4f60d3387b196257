/** Writes the frames of a server (RFC 6455, section 5): whole messages, not masked. */

/** Frames up to this size are put together in one place, and lent. */
const SHARED_BYTES = 65_536;
const MAX_HEAD = 10;
const shared = Buffer.allocUnsafeSlow(SHARED_BYTES + MAX_HEAD);

/** The text whose frame lies in `shared`: what is sent to many is encoded once. */
let lastText: string | undefined;
let lastFrame: Buffer = shared;

/** A frame without a payload that asks for a sign of life. */
export const PING_FRAME = Buffer.of(0x89, 0);

/** A message's frame. It is the caller's until the next frame is made, or for good if `isOwn` says so. */
export function messageFrame(data: string | Uint8Array): Buffer {
  if (typeof data === 'string') {
    if (data === lastText) return lastFrame;
    if (data.length * 3 <= SHARED_BYTES) {
      const length = shared.write(data, MAX_HEAD, 'utf8');
      lastFrame = framed(shared, 0x81, length);
      lastText = data;
      return lastFrame;
    }
    const length = Buffer.byteLength(data);
    const own = Buffer.allocUnsafeSlow(length + MAX_HEAD);
    own.write(data, MAX_HEAD, 'utf8');
    return framed(own, 0x81, length);
  }
  let place = shared;
  if (data.length > SHARED_BYTES) place = Buffer.allocUnsafeSlow(data.length + MAX_HEAD);
  else lastText = undefined;
  place.set(data, MAX_HEAD);
  return framed(place, 0x82, data.length);
}

/** Whether nobody else uses the frame's memory. */
export function isOwn(frame: Buffer): boolean {
  return frame.buffer !== shared.buffer;
}

/** Bytes of a frame's payload. */
export function payloadOf(frame: Buffer): number {
  const { length } = frame;
  return length < 128 ? length - 2 : length < 65_540 ? length - 4 : length - 10;
}

/** A pong with the payload of its ping. */
export function pongFrame(payload: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(2 + payload.length);
  frame[0] = 0x8a;
  frame[1] = payload.length;
  frame.set(payload, 2);
  return frame;
}

/** A close frame; 1005 stands for none and is not sent. `reason`: at most 123 bytes, the rest is cut off. */
export function closeFrame(code: number, reason: string): Buffer {
  if (code === 1005) return Buffer.of(0x88, 0);
  const text = Buffer.from(reason);
  let length = Math.min(text.length, 123);
  // Not within a character.
  while (length < text.length && ((text[length] ?? 0) & 0xc0) === 0x80) length--;
  const frame = Buffer.allocUnsafe(4 + length);
  frame[0] = 0x88;
  frame[1] = 2 + length;
  frame.writeUInt16BE(code, 2);
  text.copy(frame, 4, 0, length);
  return frame;
}

/** Puts the head before the payload that lies at MAX_HEAD. */
function framed(place: Buffer, first: number, length: number): Buffer {
  const size = length < 126 ? 2 : length < 65_536 ? 4 : 10;
  const at = MAX_HEAD - size;
  place[at] = first;
  if (size === 2) place[at + 1] = length;
  else if (size === 4) {
    place[at + 1] = 126;
    place.writeUInt16BE(length, at + 2);
  } else {
    place[at + 1] = 127;
    place.writeUInt32BE(Math.floor(length / 2 ** 32), at + 2);
    place.writeUInt32BE(length % 2 ** 32, at + 6);
  }
  return place.subarray(at, MAX_HEAD + length);
}
