/** `troupe exec`: a command in a container, with its input, both its outputs and its exit code. */
import { setTimeout as delay } from 'node:timers/promises';
import type { CommandInContainer } from '../../client/index.ts';
import { ClientFailure, EXIT } from './failure.ts';
import { connectionNotice } from './logs.ts';
import { containerOf } from './names.ts';
import { type CommandInput, onReaderGone } from './place.ts';
import { type ClientCommandOptions, type ClientSession, openSession } from './session.ts';

/** Input on its way, and output that nobody takes: past these bytes the other side waits. */
const MAX_INPUT_BYTES = 256 * 1024;
const MAX_OUTPUT_BYTES = 4 * 1024 * 1024;
/** Between two looks whether input has left, ms. */
const LOOK_MS = 20;

const CONTROL_C = 3;
const LOST = '\r\n\x1b[2m[the connection is lost: trying again, Ctrl-C gives up]\x1b[0m\r\n';

/** Runs a command, which goes on after a lost connection and a restart of the platform; ends with its exit code. */
export async function exec(name: string, command: readonly string[], options: ClientCommandOptions): Promise<void> {
  if (command.length === 0) throw new ClientFailure('usage', 'Which command? `troupe exec NAME -- COMMAND`.');
  const session = openSession(options);
  const { id } = await containerOf(session, name);
  session.out.place.exitWith((await joined(session, id, command)) ?? EXIT.interrupted);
}

/**
 * Runs a command whose input and outputs are those of the place. Resolves with its exit code; undefined when it was
 * ended. Rejects with TroupeError.
 */
export async function joined(
  session: ClientSession,
  id: string,
  command: readonly string[],
): Promise<number | undefined> {
  const { place } = session.out;
  const { stdin, stdout, stderr } = place;
  const isTerminal = stdin.isTTY === true && stdout.isTTY === true;
  const sizeNow = () => ({ cols: stdout.columns || 80, rows: stdout.rows || 24 });
  let isHeld = false;
  let isLost = false;
  const notice = isTerminal ? undefined : connectionNotice(session);
  const running = session.client.follow.command({
    id,
    command,
    size: isTerminal ? sizeNow() : undefined,
    onOpen() {
      if (isTerminal) stdin.setRawMode?.(true);
      feed(running, stdin, () => isTerminal && isLost).catch(() => running.close());
    },
    onOutput(bytes, stream) {
      const to = stream === 2 ? stderr : stdout;
      if (to.write(bytes) || to.writableLength < MAX_OUTPUT_BYTES || isHeld) return;
      isHeld = true;
      running.pause();
      to.once('drain', () => {
        isHeld = false;
        running.resume();
      });
    },
    onGap: (bytes) => session.out.note(`${bytes} bytes of its output are not kept any more.`),
    onState(state) {
      notice?.(state);
      const wasLost = isLost;
      isLost = state.state === 'waiting' || (isLost && state.state === 'connecting');
      if (isTerminal && isLost && !wasLost) stderr.write(LOST);
    },
  });
  const onResize = () => running.resize(sizeNow());
  const onInterrupt = () => running.close();
  // Whoever read the output has left.
  const forget = onReaderGone(stdout, onInterrupt);
  const release = place.onEnd(onInterrupt);
  if (isTerminal) stdout.on('resize', onResize);
  try {
    return await running.done;
  } finally {
    release();
    forget();
    stdout.off('resize', onResize);
    if (isTerminal) stdin.setRawMode?.(false);
    stdin.destroy();
  }
}

/** Passes the input on, at the pace at which it leaves. With `givesUp`, Ctrl-C is meant for us. */
async function feed(running: CommandInContainer, stdin: CommandInput, givesUp: () => boolean): Promise<void> {
  for await (const chunk of stdin) {
    const bytes = Buffer.from(chunk);
    if (givesUp() && bytes.includes(CONTROL_C)) {
      running.close();
      return;
    }
    running.write(bytes);
    while (running.waitingBytes > MAX_INPUT_BYTES) await delay(LOOK_MS);
  }
  running.end();
}
