/** The `troupe ...` that stand in the shell blocks of a page. */

/** The words behind `troupe` of each command, up to `--`; comments, and what is piped or comes after, left out. */
export function commandsIn(markdown: string): string[][] {
  return [...markdown.matchAll(/^\s*```sh\n([\s\S]*?)^\s*```$/gm)].flatMap(([, block = '']) =>
    block
      .replace(/\\\n/g, ' ')
      .replace(/(^|\s)#.*$/gm, '')
      .split(/[\n;|&()`]|\$\(/)
      .flatMap((command) => {
        const [, rest] = /^\s*(?:[A-Z_]+=\S*\s+)*(?:\.\/bin\/)?troupe\s+(.*)$/.exec(command) ?? [];
        if (rest === undefined) return [];
        const words = rest.split(/\s+/).filter((word) => word !== '');
        const end = words.indexOf('--');
        return [end === -1 ? words : words.slice(0, end)];
      }),
  );
}

/** The names of the commands that a help text lists. */
export function subcommandsOf(help: string): string[] {
  const options = help.indexOf('\nOptions:');
  const rest = help
    .slice(options + 1)
    .split('\n\n')
    .slice(1)
    .join('\n\n');
  return [...rest.matchAll(/^ {2}([a-z][a-z-]*)(?: |$)/gm)].map(([, name = '']) => name);
}
