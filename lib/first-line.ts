/** The first line of a stream, whoever holds its other end. */
import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';

/**
 * Reads a line without its end, or all where there is no line end, and closes the stream: whoever writes it may keep it
 * open. Undefined if there are more than `most` characters.
 */
export async function firstLineOf(stream: Readable, most: number): Promise<string | undefined> {
  const decoder = new StringDecoder('utf8');
  let text = '';
  // Leaving the loop closes it: an open pipe would keep the program.
  for await (const chunk of stream) {
    text += decoder.write(Buffer.from(chunk));
    if (text.includes('\n') || text.length > most) break;
  }
  if (text.length > most) return undefined;
  return text.split('\n', 1)[0]?.replace(/\r$/, '') ?? '';
}
