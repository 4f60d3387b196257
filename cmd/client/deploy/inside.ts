/** Steps of a deployment that run in the container, by deploy/release/release.sh. */
import type { Container } from '../../../client/index.ts';
import { releaseScript } from '../../config/release-script.ts';
import { clean } from '../clean.ts';
import { ClientFailure } from '../failure.ts';
import type { ClientSession } from '../session.ts';
import { hintOnMissing, missingProgram } from './missing-program.ts';

/** Where the script lies in a container. */
const SCRIPT_PATH = '/root/.troupe/release.sh';

/**
 * Most that is taken of a step's standard output, unless it says more, and of its standard error, bytes. The container
 * is its owner's, and a gateway, which serves everybody, may be what reads the answer.
 */
const MOST_OUTPUT = 64 * 1024;
const MOST_SAID = 4 * 1024 * 1024;
const INPUT_BYTES = 64 * 1024;

/** Writes it whole: its bytes are standard input. */
const WRITE = `mkdir -p /root/.troupe && cat > ${SCRIPT_PATH}.new && mv -f ${SCRIPT_PATH}.new ${SCRIPT_PATH}`;

/** Brings the script into a container: that of this version. */
export async function sendScript(session: ClientSession, { id }: Pick<Container, 'id'>): Promise<void> {
  await outputOf(session, id, ['/bin/sh', '-c', WRITE], { input: releaseScript() });
}

/** Standard output of a command that must succeed. Rejects with ClientFailure, with the end of its standard error. */
export async function outputOf(
  session: ClientSession,
  id: string,
  command: readonly string[],
  { input, mostBytes }: Pick<StepOptions, 'input' | 'mostBytes'> = {},
): Promise<string> {
  const said: string[] = [];
  const onLine = (line: string) => keep(said, line);
  const { code, output } = await runInside(session, id, command, { input, mostBytes, onLine });
  if (code === 0) return output;
  throw new ClientFailure('failed', said.join('\n') || `It failed with exit code ${code}.`);
}

/** Adds the line to the last of those that a person is told. */
function keep(said: string[], line: string): void {
  said.push(line);
  if (said.length > TOLD_LINES) said.shift();
}

interface StepOptions {
  /** Standard input. */
  readonly input?: string | undefined;
  /** Most that it may print on standard output, bytes. One that prints more has failed. Default MOST_OUTPUT. */
  readonly mostBytes?: number | undefined;
  /** Gets standard error, line by line. */
  readonly onLine?: (line: string) => void;
}

/** A container as the steps know it. `isNew`: it was made for this deployment. */
export type StepContainer = Pick<Container, 'id' | 'name'> & { readonly isNew?: boolean };

interface StepEnd {
  readonly code: number;
  readonly output: string;
}

/** Runs the script, where it is. */
const GUARD = `[ -f ${SCRIPT_PATH} ] || exit 9; exec /bin/sh ${SCRIPT_PATH} "$@"`;
/** Exit codes of the script that mean more than "it failed, and standard error says why". */
const STATE = 6;
const NOTHING = 9;
const UNHEALTHY = 10;
const RELEASE_NUMBER = /^\d{1,9}$/;
/** From when to when a release was tried that is not well. Scripts of older versions do not say it. */
const TRIED = /^(?<since>\d{4}-\d\d-\d\dT[\d:]{8}\.\d{1,9}Z) (?<until>\d{4}-\d\d-\d\dT[\d:]{8}\.\d{1,9}Z)\n$/;
/** Lines of a failed step, and of the container's log, that a person is told. */
const TOLD_LINES = 20;

/**
 * Runs a step, and resolves with its standard output. It goes on after a lost connection; Ctrl-C ends it. Rejects with
 * ClientFailure if it fails, with what it said on standard error unless `onLine` has told that.
 */
export async function runStep(
  session: ClientSession,
  { id, name, isNew = false }: StepContainer,
  words: readonly string[],
  options: StepOptions = {},
): Promise<string> {
  const said: string[] = [];
  const onLine = (line: string) => {
    keep(said, line);
    options.onLine?.(line);
  };
  const { code, output } = await runInside(session, id, ['/bin/sh', '-c', GUARD, 'release', ...words], {
    ...options,
    onLine,
  });
  if (code === 0) return output;
  if (code === STATE) throw new ClientFailure('state', clean(output.trim()));
  if (code === NOTHING) throw new ClientFailure('state', `Nothing is deployed to ${name}: \`troupe deploy\`.`);
  const printed = code === UNHEALTHY ? await lastLines(session, id, TRIED.exec(output)) : [];
  // A log has other words of the sort: what ended without a program says so.
  if (said.some((line) => line.endsWith('is not in the container.'))) {
    const program = missingProgram([...said, ...printed]);
    const hint = program && hintOnMissing(clean(program), name, session.out.place.program);
    if (hint) onLine(hint);
  }
  const isTold = options.onLine !== undefined && said.length > 0 && !session.out.json;
  const untouched = isNew ? `${name} runs no release yet: see above.` : `${name} is not changed: see above.`;
  const why = isTold ? untouched : said.join('\n');
  throw new ClientFailure('failed', why === '' ? `It failed with exit code ${code}.` : why);
}

/**
 * Runs a step that puts another release in the place of the present one, or fails and goes back. What gateways keep of
 * the app is forgotten then. Resolves with the number of the release that runs. Rejects with ClientFailure also when
 * the container answers with anything but a number: that is printed, and must not act on a terminal.
 */
export async function runSwitch(
  session: ClientSession,
  container: StepContainer,
  words: readonly string[],
  onLine: (line: string) => void,
): Promise<string> {
  try {
    const release = (await runStep(session, container, words, { onLine })).trim();
    if (RELEASE_NUMBER.test(release)) return release;
    throw new ClientFailure(
      'failed',
      `${container.name} does not say which release it runs: something changed what \`troupe deploy\` brought into ` +
        'it. Deploy again, or look at it with `troupe releases`.',
    );
  } finally {
    // The app runs all the same: what is kept goes by itself, after 30 s.
    await session.client.call('forgetAnswers', { params: { id: container.id } }).catch(() => undefined);
  }
}

/** What the container printed last, of the time in which the release was tried: earlier ones said other things. */
async function lastLines(
  { client, out }: ClientSession,
  id: string,
  tried: RegExpExecArray | null,
): Promise<readonly string[]> {
  const lines = await client.readLog({
    id,
    tail: TOLD_LINES,
    since: tried?.groups?.since,
    until: tried?.groups?.until,
  });
  if (!out.json) {
    out.note(lines.length === 0 ? 'It printed nothing.' : 'The end of its log:');
    for (const { text } of lines) out.note(out.paint(`  ${clean(text)}`, 'dim'));
  }
  return lines.map(({ text }) => clean(text));
}

async function runInside(
  { client, out }: ClientSession,
  id: string,
  command: readonly string[],
  { input, mostBytes = MOST_OUTPUT, onLine }: StepOptions = {},
): Promise<StepEnd> {
  const output: Uint8Array[] = [];
  let [size, said] = [0, 0];
  // What a container says must not act on a terminal.
  const lines = new Lines((line) => onLine?.(clean(line)));
  const running = client.follow.command({
    id,
    command,
    onOpen() {
      const bytes = Buffer.from(input ?? '');
      for (let at = 0; at < bytes.length; at += INPUT_BYTES) running.write(bytes.subarray(at, at + INPUT_BYTES));
      running.end();
    },
    onOutput(bytes, stream) {
      if (stream === 2) {
        said += bytes.length;
        if (said <= MOST_SAID) lines.add(bytes);
        return;
      }
      size += bytes.length;
      if (size <= mostBytes) output.push(bytes);
      else running.close();
    },
  });
  let isInterrupted = false;
  const release = out.place.onEnd(() => {
    isInterrupted = true;
    running.close();
  });
  try {
    const code = await running.done;
    lines.end();
    if (size > mostBytes) throw new ClientFailure('failed', 'The container answered with more than it should.');
    if (isInterrupted || code === undefined) throw new ClientFailure('interrupted', 'Interrupted.');
    return { code, output: Buffer.concat(output).toString('utf8') };
  } finally {
    release();
  }
}

/** Bytes as lines. */
class Lines {
  readonly #tell: (line: string) => void;
  readonly #decoder = new TextDecoder();
  #rest = '';

  constructor(tell: (line: string) => void) {
    this.#tell = tell;
  }

  add(bytes: Uint8Array): void {
    const lines = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split(/\r?\n|\r/);
    // Without a line end, what a program says is cut.
    this.#rest = (lines.pop() ?? '').slice(-8192);
    for (const line of lines) this.#tell(line);
  }

  end(): void {
    if (this.#rest !== '') this.#tell(this.#rest);
  }
}
