/** `troupe completion`: scripts for shells, which ask `troupe __complete` for the words. */
import type { Command } from 'commander';
import { withTimeout } from '../../lib/waiting.ts';
import { OWN_PLACE } from './own-place.ts';
import { readProfiles } from './profiles.ts';
import { openSession } from './session.ts';

const SCRIPTS = {
  bash: `_troupe() {
  local IFS=$'\\n'
  COMPREPLY=($(troupe __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  [[ \${#COMPREPLY[@]} -gt 0 ]] || compopt -o default
}
complete -F _troupe troupe
`,
  zsh: `#compdef troupe
_troupe() {
  local -a found
  found=(\${(f)"$(troupe __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)"})
  (( \${#found} )) && compadd -a found || _files
}
compdef _troupe troupe
`,
  fish: `complete -c troupe -f -a '(troupe __complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
`,
} as const;

/** Prints the script of a shell. */
export function printCompletion(shell: keyof typeof SCRIPTS): void {
  OWN_PLACE.stdout.write(SCRIPTS[shell]);
}

/** What is known of names is asked for so long, ms: a person waits at the Tab key. */
const ASK_MS = 1500;

/** Prints what the last word can become, one a line: commands, options, and names of containers. */
export async function complete(program: Command, words: readonly string[]): Promise<void> {
  const typed = words.at(-1) ?? '';
  let command = program;
  let taken = 0;
  for (const word of words.slice(0, -1)) {
    const next = command.commands.find((each) => each.name() === word || each.aliases().includes(word));
    if (next !== undefined && taken === 0) command = next;
    else if (!word.startsWith('-')) taken++;
  }
  const found = typed.startsWith('-') ? optionsOf(command) : await wordsOf(command, taken);
  const fitting = found.filter((word) => word.startsWith(typed));
  if (fitting.length > 0) OWN_PLACE.stdout.write(`${fitting.join('\n')}\n`);
}

function optionsOf(command: Command): string[] {
  return command.options.filter(({ hidden }) => !hidden).map(({ long, short }) => long ?? short ?? '');
}

async function wordsOf(command: Command, taken: number): Promise<string[]> {
  const names = command.commands.map((each) => each.name());
  if (names.length > 0) return names.filter((name) => !name.startsWith('_'));
  const argument = command.registeredArguments[Math.min(taken, command.registeredArguments.length - 1)];
  if (argument?.argChoices !== undefined) return [...argument.argChoices];
  if (argument?.name() === 'profile') return readProfiles().profiles.map(({ name }) => name);
  return argument?.name() === 'container' ? containerNames() : [];
}

async function containerNames(): Promise<string[]> {
  try {
    const { client } = openSession({ place: OWN_PLACE });
    const list = client.call('listContainers', undefined, { timeoutMs: ASK_MS });
    return (await withTimeout(list, ASK_MS, () => ({ containers: [] }))).containers.map(({ name }) => name);
  } catch {
    // Nobody is logged in, or the platform is away: there is nothing to offer.
    return [];
  }
}
