/** A kept command as a client sees it: all that came over one connection to it. */
import type {
  KeptCommand,
  KeptCommandEnd,
  KeptCommandRequest,
  KeptCommands,
} from '../../../proto/ports/kept-command.ts';
import { until } from '../until.ts';

/** One connection, and what it told. */
export interface SeenCommand {
  readonly command: KeptCommand;
  /** What was printed, both streams in the order in which it came. */
  all(): string;
  /** What was printed on one stream. */
  of(stream: 1 | 2): string;
  /** Bytes of output that the client has: what it would come back with. */
  cursor(): number;
  /** Of the input, what the command took. */
  written(): number;
  exit(): Promise<number>;
  /** How many times an exit code was told. */
  exits(): number;
  /** Whether much of what was said waits. */
  isFull(): boolean;
  /** Waits for the end of the connection, and gives why. */
  over(): Promise<KeptCommandEnd>;
}

/** Joins a command, and begins it if `request` says so. With `acknowledges` false nothing is confirmed. */
export async function seeCommand(
  commands: KeptCommands,
  request: Partial<KeptCommandRequest> & { readonly containerId?: string },
  acknowledges = true,
): Promise<SeenCommand> {
  const { containerId = 'c1', ...given } = request;
  const wanted = { name: 'one', since: 0, lingerMs: 30_000, lifeMs: Number.POSITIVE_INFINITY, ...given };
  const command = await commands.open(containerId, wanted, new AbortController().signal);
  const parts: Buffer[] = [];
  let cursor = command.cursor;
  let written = command.input.written;
  let exit: number | undefined;
  let exits = 0;
  let isFull = false;
  let why: KeptCommandEnd | undefined;
  command.listen({
    output(frame) {
      parts.push(Buffer.from(frame));
      cursor += frame.length - 1;
      if (acknowledges) command.acknowledge(cursor);
    },
    input(progress) {
      written = progress.written;
    },
    exit(code) {
      exit = code;
      exits++;
    },
    full(isFullNow) {
      isFull = isFullNow;
    },
    over(end) {
      why = end;
    },
  });
  const text = (of: readonly Buffer[]) => Buffer.concat(of.map((part) => part.subarray(1))).toString('latin1');
  return {
    command,
    all: () => text(parts),
    of: (stream) => text(parts.filter((part) => part[0] === stream)),
    cursor: () => cursor,
    written: () => written,
    exit: async () =>
      (await until(() => (exit === undefined ? undefined : { exit }), { what: 'the command has ended' })).exit,
    exits: () => exits,
    isFull: () => isFull,
    over: () => until(() => why, { what: 'it is over' }),
  };
}
