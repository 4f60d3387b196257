/** A line without an end in a container's log, and what it costs the platform. */
import { readFileSync } from 'node:fs';
import { WebSocket } from 'ws';
import type { Box } from '../clients/container.ts';

export interface LineReport {
  readonly sentMb: number;
  /** What the follower got of it: Docker skips or repeats some while it rotates its files this fast. */
  readonly receivedMb: number;
  readonly messages: number;
  /** Longest message, in characters. */
  readonly longest: number;
  /** Memory of the platform's process, MB. */
  readonly memoryMb: { readonly before: number; readonly most: number };
}

/** Writes one line of `mebibytes` while a reader follows the log. Resolves once the next line is seen. */
export async function endlessLine(
  box: Box,
  token: string,
  platformPid: number,
  mebibytes: number,
): Promise<LineReport> {
  const memoryMb = () =>
    Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${platformPid}/status`, 'utf8'))?.[1]) / 1024);
  const before = memoryMb();
  let [most, bytes, messages, longest] = [before, 0, 0, 0];
  let isSeen = false;
  const log = new WebSocket(`${box.ws}/logs?tail=0&token=${token}`, { perMessageDeflate: false });
  const shell = new WebSocket(`${box.ws}/terminal?token=${token}`, { perMessageDeflate: false });
  try {
    await new Promise<void>((resolve, reject) => {
      log.on('message', (data: Buffer) => {
        const text = data.toString().slice(31);
        if (/^x+$/.test(text)) {
          bytes += text.length;
          messages++;
          longest = Math.max(longest, text.length);
        } else if (text === 'mark' && !isSeen) {
          isSeen = true;
          shell.send(Buffer.from('touch /tmp/seen; wait\n'));
          shell.send(Buffer.from(`(head -c ${mebibytes}m /dev/zero | tr '\\0' x; echo; echo after) >/proc/1/fd/1\n`));
        } else if (text === 'after') resolve();
        if (messages % 100 === 0) most = Math.max(most, memoryMb());
      });
      log.on('open', () => {
        const mark = 'rm -f /tmp/seen; while [ ! -e /tmp/seen ]; do echo mark >/proc/1/fd/1; usleep 200000; done &\n';
        if (shell.readyState === WebSocket.OPEN) shell.send(Buffer.from(mark));
        else shell.once('open', () => shell.send(Buffer.from(mark)));
      });
      for (const socket of [log, shell]) socket.on('error', reject).on('close', () => reject(new Error('it ended')));
    });
  } finally {
    log.terminate();
    shell.terminate();
  }
  return { sentMb: mebibytes, receivedMb: Math.round(bytes / 2 ** 20), messages, longest, memoryMb: { before, most } };
}
