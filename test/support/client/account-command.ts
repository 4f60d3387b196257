/** A command by SSH to the account, on a platform that a test plays. */
import { PassThrough, Writable } from 'node:stream';
import type { ClientTransport, TransportAnswer } from '../../../client/transport.ts';
import { runAccountCommand } from '../../../cmd/client/account/run.ts';

/** What a command or git said, and how it ended. */
export interface SaidAndEnded {
  readonly code: number | null;
  readonly said: string;
}

/** An answer of the platform. */
export const answer = (status: number, body: unknown): TransportAnswer => ({
  status,
  body: JSON.stringify(body),
  header: () => undefined,
});

const writing = (say: (text: string) => void) =>
  new Writable({
    write(chunk, _encoding, done) {
      say(String(chunk));
      done();
    },
  });

/** Begins a command; resolves with its exit code. */
export async function beginCommand(
  transport: ClientTransport,
  command: string,
  parts: {
    readonly input: NodeJS.ReadableStream;
    readonly output: Writable;
    readonly say: (text: string) => void;
  },
): Promise<number> {
  const account = { userId: 'a00000000000', username: 'ann', sessionsEpoch: 0, fingerprint: 'F', keyName: 'x' };
  const channel = {
    account: { ...account, asked: 'ann' },
    address: '192.0.2.1',
    command,
    terminal: () => undefined,
    isPlain: true,
    input: new PassThrough(),
    output: parts.output,
    errors: writing(parts.say),
    onEvent: () => {},
    gone: new AbortController().signal,
  };
  parts.input.pipe(channel.input);
  const onFault = (error: unknown) => parts.say(String(error));
  const { code, ended } = runAccountCommand(channel, { domain: 'x.test', token: '', transport, onFault });
  const found = await code;
  await ended;
  return found;
}

/** Runs a command without input, and resolves with all that it said. */
export async function askByKey(transport: ClientTransport, command: string): Promise<SaidAndEnded> {
  let said = '';
  const say = (text: string) => {
    said += text;
  };
  const input = new PassThrough();
  input.end();
  const code = await beginCommand(transport, command, { input, output: writing(say), say });
  return { code, said };
}

/** A platform that answers requests so, and has no streams. `sent`: the body of the request. */
export function requestsTo(respond: (method: string, path: string, sent: string) => TransportAnswer): ClientTransport {
  return {
    socketHeaders: true,
    send: async ({ method, url, body }) => respond(method, new URL(url).pathname, String(body ?? '')),
    connect: () => {
      throw new Error('nothing is streamed');
    },
  };
}
