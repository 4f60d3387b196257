/** Runs what one session by SSH asks for. */
import { CommanderError } from 'commander';
import { TroupeError } from '../../../client/index.ts';
import type { AccountChannel } from '../../../proto/ports/account-commands.ts';
import { ClientFailure, EXIT, report, reportUsage } from '../failure.ts';
import type { MenuTimer } from './menu.ts';
import { AccountPlace, type AccountPlaceParts } from './place.ts';
import { accountProgram } from './program.ts';
import { wordsOf } from './words.ts';

/** Letters behind one dash are taken apart one by one: of very many that takes long. */
const MOST_OF_OPTION = 100;

interface AccountRunParts extends AccountPlaceParts {
  /** Told of what is no failure that its user could understand. */
  readonly onFault: (error: unknown) => void;
  /** Times what a person at the menu leaves undone; tests hand in one of their own. */
  readonly after?: MenuTimer;
}

const afterPause: MenuTimer = (ms, work) => {
  const timer = setTimeout(work, ms);
  return () => clearTimeout(timer);
};

/** A command that was started. */
interface AccountRun {
  /** Resolves with the exit code: of the command, or of what ended it. */
  readonly code: Promise<number>;
  /** Resolves when nothing of the command is left. */
  readonly ended: Promise<void>;
}

/** Starts it. */
export function runAccountCommand(channel: AccountChannel, parts: AccountRunParts): AccountRun {
  const place = new AccountPlace(channel, parts);
  const work = execute(channel, place, parts);
  const code = Promise.race([work.then(() => place.exitCode), place.killed]).then(async (found) => {
    // What was written last goes first.
    await Promise.all([...new Set([place.stdout, place.stderr])].map((output) => flushed(output, channel.gone)));
    return found;
  });
  return { code, ended: work.then(() => place.kill()) };
}

/** Never rejects. */
async function execute(channel: AccountChannel, place: AccountPlace, parts: AccountRunParts): Promise<void> {
  const { onFault, after = afterPause } = parts;
  const { command = '', account } = channel;
  // Whoever gave that name knows. The menu says it in its title.
  if (account.asked !== account.username) place.stderr.write(`account ${account.username}\n`);
  let isJson = false;
  try {
    const words = wordsOf(command);
    if (words === undefined)
      throw new ClientFailure('usage', 'The command line is too long, or a quote in it does not end.');
    if (words[0] === 'troupe') words.shift();
    const options = words.includes('--') ? words.slice(0, words.indexOf('--')) : words;
    if (options.some((word) => /^-[^-]/.test(word) && word.length > MOST_OF_OPTION))
      throw new ClientFailure('usage', 'An option of one dash is too long: put a blank before its value.');
    isJson = options.includes('--json');
    if (words.length === 0 && place.stdin.isTTY) {
      await (await import('./menu.ts')).showMenu(place, after);
      return;
    }
    const program = accountProgram(place, { json: isJson });
    if (words.length === 0) {
      program.outputHelp({ error: true });
      place.exitWith(EXIT.usage);
      return;
    }
    await program.parseAsync(words, { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) reportUsage(error, { place, json: isJson });
    else report(explained(error, onFault), { place, json: isJson });
  }
}

/** A fault's text is for the operator: it may tell of the machine. */
function explained(error: unknown, onFault: (error: unknown) => void): unknown {
  if (error instanceof TroupeError || error instanceof ClientFailure) return error;
  onFault(error);
  return new ClientFailure('failed', 'This failed on the platform, whose operator can see why.', { cause: error });
}

function flushed(output: AccountPlace['stdout'], gone: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (gone.aborted || output.destroyed) return resolve();
    gone.addEventListener('abort', () => resolve(), { once: true });
    output.write('', () => resolve());
  });
}
