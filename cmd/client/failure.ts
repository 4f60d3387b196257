/** Why a client command failed, as a sentence and as an exit code. */

import { TroupeError } from '../../client/index.ts';
import { CodedError } from '../../lib/errors.ts';
import { wordsFor } from '../config/cli-error.ts';
import { clean } from './clean.ts';
import type { CommandPlace } from './place.ts';

/** Exit codes of the client commands (docs/guide/command-line.md). */
export const EXIT = {
  failed: 1,
  usage: 2,
  login: 3,
  forbidden: 4,
  missing: 5,
  state: 6,
  limit: 7,
  unreachable: 8,
  timeout: 124,
  interrupted: 130,
} as const;

type FailureCode = keyof typeof EXIT;

/** A container that a command made before it failed, and how it is removed. */
interface LeftContainer {
  readonly container_id: string;
  readonly name: string;
  readonly remove: string;
}

interface FailureOptions extends ErrorOptions {
  readonly candidates?: readonly string[];
  readonly left?: LeftContainer;
}

/** A command that did not do what was asked. */
export class ClientFailure extends CodedError<FailureCode> {
  /** What a program may read besides. */
  readonly candidates: readonly string[] | undefined;
  readonly left: LeftContainer | undefined;

  constructor(code: FailureCode, message: string, options: FailureOptions = {}) {
    super(code, message, options);
    this.candidates = options.candidates;
    this.left = options.left;
  }
}

/** The same failure, with what is to be said of what it left behind, to people and to programs. */
export function withAftermath(cause: unknown, said: string, left?: LeftContainer): ClientFailure {
  const text = [...spoken(cause), said].join('\n');
  return new ClientFailure(failureOf(cause), text, { cause, ...(left && { left }) });
}

const BY_CODE: Readonly<Record<string, FailureCode>> = {
  limit_reached: 'limit',
  too_many_attempts: 'limit',
  too_many_changes: 'limit',
  not_configured: 'state',
  discards_files: 'state',
  unreachable: 'unreachable',
  timeout: 'unreachable',
  cancelled: 'interrupted',
  elsewhere: 'usage',
  untrusted: 'failed',
};
const BY_STATUS: Readonly<Record<number, FailureCode>> = {
  400: 'usage',
  401: 'login',
  403: 'forbidden',
  404: 'missing',
  409: 'state',
  502: 'unreachable',
  503: 'unreachable',
  504: 'unreachable',
};

/** The kind of a failure. */
export function failureOf(error: unknown): FailureCode {
  if (error instanceof ClientFailure) return error.code;
  if (error instanceof TroupeError) return BY_CODE[error.code] ?? BY_STATUS[error.status] ?? 'failed';
  return 'failed';
}

/** Says on standard error why a command failed, and sets the exit code. */
export function report(
  error: unknown,
  { place, json }: { readonly place: Pick<CommandPlace, 'stderr' | 'exitWith'>; readonly json: boolean },
): void {
  const failure = failureOf(error);
  place.exitWith(EXIT[failure]);
  if (json) {
    const { code, ...more } = details(error);
    place.stderr.write(`${JSON.stringify({ error: sentence(error), code: code ?? failure, ...more })}\n`);
    return;
  }
  const lines = spoken(error);
  if (error instanceof TroupeError && failure === 'failed' && error.requestId !== undefined)
    lines.push(`(request ${error.requestId})`);
  const hint = hintOf(error, failure);
  if (hint !== undefined) lines.push(hint);
  // What a container, or a file of somebody else, says must not act on a terminal.
  const shown = lines.flatMap((line) => line.split('\n')).map(clean);
  place.stderr.write(`troupe: ${shown.join('\n')}\n`);
}

/** The same of wrong words, which commander has told already, unless as JSON. */
export function reportUsage(
  error: { readonly message: string; readonly exitCode: number },
  { place, json }: { readonly place: Pick<CommandPlace, 'stderr' | 'exitWith'>; readonly json: boolean },
): void {
  // Help, or the version, was asked for.
  if (error.exitCode === 0) return;
  place.exitWith(EXIT.usage);
  if (!json) return;
  const sentence = error.message.replace(/^error: /, '').replace(/\s*\n\s*/g, ' ');
  place.stderr.write(`${JSON.stringify({ error: sentence, code: 'usage' })}\n`);
}

/** The same for a person: what was refused of a request field by field, and as whole sentences. */
function spoken(error: unknown): string[] {
  if (!(error instanceof TroupeError)) return [sentence(error)];
  if (error.code === 'invalid_request' && error.fields.length > 0)
    return error.fields.map(({ path, message }) => {
      const name = path.replace(/^(body|query|path)\./, '');
      return full(/^(must|is) /.test(message) ? `${name} ${message}` : `${name}: ${message}`);
    });
  const text = sentence(error);
  return [full(text.charAt(0).toUpperCase() + text.slice(1))];
}

const full = (text: string): string => (/[.!?`]$/.test(text) ? text : `${text}.`);

interface FailureDetails {
  readonly code?: string;
  readonly fields?: unknown;
  readonly proof?: unknown;
  readonly request_id?: string | undefined;
  readonly candidates?: readonly string[] | undefined;
  readonly left?: LeftContainer | undefined;
}

function details(error: unknown): FailureDetails {
  if (error instanceof ClientFailure)
    return { ...details(error.cause), candidates: error.candidates, left: error.left };
  if (!(error instanceof TroupeError)) return {};
  const fields = error.fields.length === 0 ? undefined : error.fields;
  return { code: error.code, fields, proof: error.proof, request_id: error.requestId };
}

function sentence(error: unknown): string {
  if (error instanceof TroupeError && error.code === 'unauthorized') return 'You are not logged in, or no longer.';
  return error instanceof TroupeError || error instanceof ClientFailure ? error.message : wordsFor(error);
}

/** How to get a hostname that another account claims. */
export function proofHint({ name, value }: NonNullable<TroupeError['proof']>): string {
  return (
    'Another account claims this hostname and has not proven it. If it is yours, enter this record at your DNS ' +
    `provider:\n\n  TXT    ${name}\n         ${value}\n`
  );
}

function hintOf(error: unknown, failure: FailureCode): string | undefined {
  if (!(error instanceof TroupeError)) return undefined;
  if (error.code === 'untrusted')
    return (
      'If the platform has an authority of its own, copy ca.pem of its data folder here and name it: ' +
      '`troupe login URL --ca ca.pem`.'
    );
  if (failure === 'login') return 'Log in with `troupe login`.';
  if (error.proof !== undefined) return `${proofHint(error.proof)}\nThen run the command again.`;
  if (error.retryAfter !== undefined && error.retryAfter > 0) return `Try again in ${Math.ceil(error.retryAfter)} s.`;
  return undefined;
}
