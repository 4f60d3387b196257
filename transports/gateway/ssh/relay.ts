/** Joins a channel of the client with one of the container, so that nothing is lost at the end. */
import type { Channel, ClientChannel, ServerChannel } from 'ssh2';
import { pipeChannel } from './channel-pipe.ts';
import type { SshEnd } from './ssh-end.ts';

/** The two connections of a login. */
export interface Sides {
  readonly client: SshEnd;
  readonly container: SshEnd;
}

/** How a process ended (RFC 4254 section 6.10). */
type Exit = { readonly code: number } | { readonly signal: string; readonly isCore: boolean; readonly text: string };

/**
 * Joins a session (RFC 4254 section 6). The end of the container's half goes on in this order: all output, then how the
 * process ended, then EOF, then the close; a close that overtakes output cuts it off. Resolves when both are closed.
 * Must be called in the turn in which `inside` opened. `hungUp` says that the client has closed its half already.
 */
export async function relaySession(outside: ServerChannel, inside: ClientChannel, sides: Sides): Promise<void> {
  const { client, container } = sides;
  let exit: Exit | undefined;
  inside.on('exit', (code: number | null, signal?: string, isCore?: unknown, text?: string) => {
    exit =
      code === null
        ? { signal: (signal ?? '').replace(/^SIG/, ''), isCore: Boolean(isCore), text: text ?? '' }
        : { code };
  });
  for (const stream of [outside, outside.stderr, inside, inside.stderr]) stream.on('error', () => {});
  const closed = new Promise<void>((resolve) => container.whenClosed(inside, resolve));
  const output = pipeChannel(inside, (bytes) => outside.write(bytes), outside, client);
  const errors = pipeChannel(inside.stderr, (bytes) => outside.stderr.write(bytes), outside, client);
  const input = pipeChannel(outside, (bytes) => inside.write(bytes), inside, container);
  void input.done.then(() => inside.eof());
  client.whenClosed(outside, () => {
    // Nobody reads any more: the process is to hear of it at once, whatever it still has to read.
    for (const one of [input, output, errors]) one.discard();
    inside.close();
  });
  await Promise.all([output.done, errors.done, closed]);
  input.discard();
  if (exit !== undefined) {
    if ('code' in exit) outside.exit(exit.code);
    else outside.exit(exit.signal, exit.isCore, exit.text);
  }
  outside.eof();
  outside.close();
}

/** Joins two forwarded connections. Each half ends for itself: a program may end what it says and go on listening. */
export async function relayForward(outside: Channel, inside: Channel, sides: Sides): Promise<void> {
  const { client, container } = sides;
  for (const stream of [outside, inside]) stream.on('error', () => {});
  const down = pipeChannel(inside, (bytes) => outside.write(bytes), outside, client);
  const up = pipeChannel(outside, (bytes) => inside.write(bytes), inside, container);
  void down.done.then(() => outside.eof());
  void up.done.then(() => inside.eof());
  // A side that is closed takes nothing more; what it said before goes on to the other first.
  client.whenClosed(outside, () => {
    down.discard();
    void up.done.then(() => inside.close());
  });
  container.whenClosed(inside, () => {
    up.discard();
    void down.done.then(() => outside.close());
  });
  await Promise.all([down.done, up.done]);
  outside.close();
  inside.close();
}
