/** `troupe api`: any request with the profile. */
import { jsonOf } from '../../lib/input.ts';
import { ClientFailure } from './failure.ts';
import { readInput } from './prompt.ts';
import { type ClientCommandOptions, openSession } from './session.ts';

export interface ApiCommandOptions extends ClientCommandOptions {
  /** The body as JSON; `-` reads it from standard input. */
  readonly body?: string;
  /** Lines `name: value`. */
  readonly header?: readonly string[];
  readonly idempotencyKey?: string;
}

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

/** Sends a request and prints the answer. */
export async function sendRequest(method: string, path: string, options: ApiCommandOptions): Promise<void> {
  const verb = method.toUpperCase();
  if (!METHODS.includes(verb)) throw new ClientFailure('usage', `${method} is none of ${METHODS.join(', ')}.`);
  if (!path.startsWith('/')) throw new ClientFailure('usage', `${path} is no path such as /compute/containers.`);
  const { client, out } = openSession(options);
  const text = options.body === '-' ? await readInput(out.place) : options.body;
  const { idempotencyKey } = options;
  const control = { headers: headersOf(options.header ?? []), ...(idempotencyKey && { idempotencyKey }) };
  const answer = await client.request(verb, path, text === undefined ? undefined : bodyOf(text), control);
  const shown = out.isTerminal && !out.json ? indented(answer.body) : answer.body;
  if (shown !== '') out.line(shown.trimEnd());
}

const HEADER = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e]*?)[ \t]*$/;

function headersOf(lines: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    lines.map((line) => {
      const [, name = '', value = ''] = HEADER.exec(line) ?? [];
      if (name === '') throw new ClientFailure('usage', `"${line}" is no header such as "Accept: text/plain".`);
      return [name.toLowerCase(), value];
    }),
  );
}

function bodyOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ClientFailure('usage', 'The body is not JSON.', { cause });
  }
}

function indented(text: string): string {
  const value = jsonOf(text);
  return value === undefined ? text : JSON.stringify(value, undefined, 2);
}
