/** Commands in containers, over their WebSocket. */
import { z } from 'zod';
import type { Cleanup } from '../temp.ts';
import { type SocketEnd, type TestSocket, websocket } from './websocket.ts';

const exitSchema = z.object({ type: z.literal('exit'), code: z.int() });

/** Runs a command: `url` ends with `/exec`, `more` is more of the query. */
export function execSocket(
  t: Cleanup,
  url: string,
  token: string,
  command: readonly string[],
  more = '',
): Promise<TestSocket> {
  const query = command.map((word) => `command=${encodeURIComponent(word)}`).join('&');
  return websocket(t, `${url}?${query}${more}`, { headers: { authorization: `Bearer ${token}` } });
}

/** Reads a command to its end. */
export async function commandOutcome(
  socket: TestSocket,
): Promise<{ out: string; err: string; exit: number; end: SocketEnd }> {
  const outputs: Buffer[][] = [[], []];
  for (;;) {
    const frame = await socket.next(30_000);
    if ('text' in frame) {
      const { data: exit } = exitSchema.safeParse(JSON.parse(frame.text));
      if (exit === undefined) continue; // Of a command with a session.
      const { code } = exit;
      const [out = '', err = ''] = outputs.map((parts) => Buffer.concat(parts).toString());
      return { out, err, exit: code, end: await socket.closed };
    }
    const bytes = Buffer.from(frame.binary);
    outputs[(bytes[0] ?? 0) - 1]?.push(bytes.subarray(1));
  }
}
