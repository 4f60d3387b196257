/** The command line of Troupe. */
import './config/refuse-old-node.ts';

import { Command, CommanderError } from 'commander';
import { isCode } from '../lib/errors.ts';
import { addClientCommands } from './client/commands.ts';
import { nameHelp } from './client/common.ts';
import { wordsFor } from './config/cli-error.ts';
import { ProgramOfOne } from './config/one-command.ts';
import { version } from './config/program.ts';

const words = process.argv.slice(2).map(twoDashes);
const at = words.findIndex((word, index) => !word.startsWith('-') && words[index - 1] !== '--data');
const first = words[at];
/** What is this program's: behind `--` are another one's words. */
const own = words.includes('--') ? words.slice(0, words.indexOf('--')) : words;
/** Wrong words of a client command are told as JSON where its other failures are. */
let isJson = false;

/** These look at all commands. */
const readsAll = first === undefined || first === 'help' || first.startsWith('_');
const program = (readsAll ? new Command('troupe') : new ProgramOfOne('troupe', first))
  .description('A self-hosted container cloud: log in, run containers, open terminals in them.')
  .version(version)
  .showHelpAfterError('(troupe --help shows what there is)')
  .configureOutput({
    writeErr: (text) => void (isJson || process.stderr.write(text)),
    outputError: (text, write) => write(text.replace(/^error: /, 'troupe: ')),
  })
  .addHelpText('after', '\nThe guide is docs/guide/command-line.md; configuration is docs/reference/configuration.md.');

program.option('--data <dir>', 'folder of the platform, before the command or after it (default: TROUPE_DATA)');
// An option that the program has too is read by the program, wherever it stands.
program.hook('preAction', (_program, action) => {
  const given = program.opts<{ data?: string }>().data;
  if (given === undefined) return;
  for (let command: Command | null = action; command !== null && command !== program; command = command.parent)
    command.setOptionValueWithSource('data', given, 'cli');
});

// Wrong words of a client command end with 2: 1 would say that it was tried.
program.exitOverride();
const ownPlace = async () => (await import('./client/own-place.ts')).OWN_PLACE;
addClientCommands(program, ownPlace);
const isKnown = () => program.commands.some((command) => command.name() === first);
const isClient = isKnown();
isJson = isClient && own.includes('--json');
// What an operator needs takes longer to load than most client commands take.
if (!isClient) (await import('./cli/operator-commands.ts')).addOperatorCommands(program);
const isNothing = first !== undefined && !isKnown();
nameHelp(program, 'troupe ');

// Not `help`, and not what only shells call.
program.configureHelp({
  visibleCommands: (command) => command.commands.filter((each) => !each.name().startsWith('_')),
});

/** `-http-port` is `--http-port`: flags of one dash are promised, too. What follows `--` is another program's. */
function twoDashes(argument: string, at: number, all: readonly string[]): string {
  return /^-[a-z][a-z-]+(=|$)/.test(argument) && !all.slice(0, at).includes('--') ? `-${argument}` : argument;
}

/** They run on without whoever read what they print. */
const SERVERS = ['up', 'gateway', 'auth', 'compute', 'monitor', 'notify'];
/** As a program ends that SIGPIPE ends: whoever reads has enough, as in `troupe ps | head -1`. */
const READER_LEFT = 141;

if (first === undefined || !SERVERS.includes(first) || own.includes('--help'))
  process.stdout.on('error', (error) => {
    // A command that looks after it itself has more to end.
    if (process.stdout.listenerCount('error') > 1) return;
    if (!isCode(error, 'EPIPE')) throw error;
    process.exit(READER_LEFT);
  });

try {
  await program.parseAsync([...process.argv.slice(0, 2), ...words]);
} catch (error) {
  if (error instanceof CommanderError) {
    // It has said what is wrong.
    process.exitCode = error.exitCode !== 0 && isNothing ? 2 : error.exitCode;
    if (isClient && error.exitCode !== 0)
      (await import('./client/failure.ts')).reportUsage(error, { place: await ownPlace(), json: isJson });
  } else if (isClient) {
    (await import('./client/failure.ts')).report(error, { place: await ownPlace(), json: isJson });
  } else {
    process.stderr.write(`troupe: ${wordsFor(error)}\n`);
    process.exitCode = 1;
  }
}
