/** What a container whose change failed said last: what its check found, and the end of its log. */
import { type Engine, EngineError } from '../../../proto/ports/engine.ts';
import type { FailedChange } from '../../../storage/compute/failed-changes.ts';
import { linesWithoutSecrets } from './masking.ts';
import { boundedSentence, inOneLine } from './rules.ts';

export type Evidence = Pick<FailedChange, 'answers' | 'log'>;

const NO_EVIDENCE: Evidence = { answers: [], log: [] };

/** Lines of a log that are kept, and those of them that a sentence has. */
const LOG_LINES = 20;
const SENTENCE_LINES = 5;
/** How long they may take to come. */
const LOG_MS = 3000;
/** Answers of a check that are kept: those that differ from the one before. */
const MOST_ANSWERS = 5;

/** Why a change of a container came to nothing, with what the one that failed said last. */
export class ChangeFailure extends EngineError {
  readonly evidence: Evidence;

  constructor(code: EngineError['code'], message: string, evidence: Evidence, options?: ErrorOptions) {
    super(code, message, options);
    this.evidence = evidence;
  }
}

/** What came with an error. */
export function evidenceIn(error: unknown): Evidence {
  return error instanceof ChangeFailure ? error.evidence : NO_EVIDENCE;
}

/** What a check found, look by look: the last few. */
export class CheckAnswers {
  readonly #found: { readonly text: string; times: number }[] = [];

  add(text: string): void {
    const last = this.#found.at(-1);
    if (last?.text === text) last.times += 1;
    else this.#found.push({ text, times: 1 });
    if (this.#found.length > MOST_ANSWERS) this.#found.shift();
  }

  /** Oldest first, each in a bounded line. */
  texts(): readonly string[] {
    return this.#found.map(({ text, times }) => boundedSentence(times === 1 ? text : `${times} times: ${text}`));
  }
}

/**
 * The end of the log of a container, without its secrets, each line bounded and fit for a terminal; empty when there is
 * nothing to be had soon. Rejects with the reason of `signal`.
 */
export async function lastLog(
  engine: Pick<Engine, 'logs'>,
  id: string,
  secrets: readonly string[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const lines: string[] = [];
  try {
    const soon = AbortSignal.any([signal, AbortSignal.timeout(LOG_MS)]);
    for await (const batch of engine.logs(id, { tail: LOG_LINES, follow: false, signal: soon })) lines.push(...batch);
  } catch (error) {
    if (!(error instanceof EngineError)) signal.throwIfAborted();
  }
  return shownLines(lines, secrets);
}

/** Lines of a log with stamps as they are shown: they go to people who may not know the secrets. */
export function shownLines(lines: readonly string[], secrets: readonly string[]): readonly string[] {
  return linesWithoutSecrets(lines, secrets)
    .slice(-LOG_LINES)
    .map((line) => inOneLine([line]));
}

/** `, and said last: ` with the last lines of a log that is shown; empty when there are none. */
export function saidLast(log: readonly string[]): string {
  const said = inOneLine(log.slice(-SENTENCE_LINES).map((line) => ` ${line}`));
  return said === '' ? '' : `, and said last: ${said}`;
}
