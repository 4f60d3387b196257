/** Options that client commands share. They load nothing: what a command does is imported when it runs. */
import { Argument, type Command, InvalidArgumentError, Option } from 'commander';

/**
 * Makes each command name its own help when its words are wrong. `parent`: what is typed before its commands, such as
 * `troupe `. One of
 * `withOtherWords` says something better.
 */
export function nameHelp(command: Command, parent: string): void {
  for (const each of command.commands) {
    if (!saysMore.has(each)) each.showHelpAfterError(`(${parent}${each.name()} --help shows what there is)`);
    nameHelp(each, `${parent}${each.name()} `);
  }
}

const saysMore = new WeakSet<Command>();

/** Says of a command whose last words are another program's that `--` divides them. */
export function withOtherWords(command: Command, example: string): Command {
  saysMore.add(command);
  return command.showHelpAfterError(`(put -- before what is not meant for troupe: ${example})`);
}

/** A command of the client with the options that all of them have. */
export function clientCommand(parent: Command, usage: string, summary: string): Command {
  return parent
    .command(usage)
    .description(summary)
    .option('--profile <name>', 'another login than the current one (default: TROUPE_PROFILE)')
    .option('--json', 'print what the platform answers, as JSON')
    .addOption(new Option('--color <when>', 'colours').choices(['auto', 'always', 'never']).hideHelp());
}

/** The same for one that prints a table. */
export function listCommand(parent: Command, usage: string, summary: string): Command {
  return clientCommand(parent, usage, summary)
    .option('--columns <names>', 'only these columns, such as name,status')
    .option('-q, --quiet', 'only the last column: ids');
}

const CACHE_MODES = ['explicit', 'default', 'off'];

/** What gateways keep of the answers that come by what is opened. */
export function cacheOption(): Option {
  const what =
    'what gateways keep of its answers: what an answer declares fresh (explicit, as always), default, or off';
  return new Option('--cache <mode>', what).choices(CACHE_MODES);
}

/** The same, of what is open already. */
export function cacheArgument(): Argument {
  return new Argument(
    '<mode>',
    'what is kept: what an answer declares fresh, what section 4.5 allows, or nothing',
  ).choices(CACHE_MODES);
}

/** A whole number of at most seven digits, not negative. Throws InvalidArgumentError. */
export function count(value: string): number {
  if (!/^[0-9]{1,7}$/.test(value)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(value);
}

/** Memory in MB: `512`, `512M` or `2G`. Throws InvalidArgumentError. */
export function megabytes(value: string): number {
  return sized(value, { '': 1, m: 1, g: 1024 });
}

/** Storage in GB: `5`, `5G` or `1T`. Throws InvalidArgumentError. */
export function gigabytes(value: string): number {
  return sized(value, { '': 1, g: 1, t: 1024 });
}

function sized(value: string, units: Readonly<Record<string, number>>): number {
  const [, number, unit = ''] = /^(\d{1,6})([a-z]?)b?$/i.exec(value) ?? [];
  const factor = units[unit.toLowerCase()];
  if (number === undefined || factor === undefined)
    throw new InvalidArgumentError(
      `It must be a number, or one with ${Object.keys(units).join(' ').trim().toUpperCase().replace(' ', ' or ')}.`,
    );
  return Number(number) * factor;
}

/** Collects the values of an option that may come several times, or once with commas. */
export function several(value: string, before: readonly string[] | undefined): string[] {
  return [...(before ?? []), ...value.split(',').filter((each) => each !== '')];
}

/** Collects the values of an option that may come several times; commas are part of them. */
export function each(value: string, before: readonly string[] | undefined): string[] {
  return [...(before ?? []), value];
}
