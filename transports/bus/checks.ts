/** What both buses refuse, so that what runs on one runs on the other. */
import { BusError } from '../../proto/ports/bus.ts';

/** Largest payload: a NATS server takes 1 MiB unless it is told otherwise, and an envelope has to fit in. */
export const MAX_PAYLOAD_BYTES = (1 << 20) - 64;

const NAME = /^[A-Za-z0-9_-]{1,200}$/;
// A message id travels in a header line.
const MESSAGE_ID = /^(?! )[^\0\r\n]{1,1024}(?<! )$/;

/** Throws BusError `too_large` for a payload that is more than a message may carry. */
export function checkSize(data: Uint8Array): void {
  if (data.byteLength > MAX_PAYLOAD_BYTES) {
    throw new BusError('too_large', `A message has at most ${MAX_PAYLOAD_BYTES} bytes.`);
  }
}

/** Throws TypeError unless `text` can name a stream or a consumer. */
export function checkName(text: string): void {
  if (!NAME.test(text)) throw new TypeError(`Not a name: ${JSON.stringify(text.slice(0, 100))}`);
}

/** Throws TypeError unless `text` can be a message id. */
export function checkMessageId(text: string): void {
  if (!MESSAGE_ID.test(text)) {
    throw new TypeError('A message id is one line of 1 to 1,024 characters without a space at its ends.');
  }
}
