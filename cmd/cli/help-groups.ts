/** `troupe --help`: the commands by what one wants of them, those needed first on top. */
import type { Command } from 'commander';

const GROUPS: Readonly<Record<string, readonly string[]>> = {
  'The platform:': ['up', 'down', 'doctor', 'migrate', 'database', 'rekey', 'secrets'],
  'People and what is theirs:': ['users', 'containers', 'routes', 'registry', 'domains'],
  'Looking in:': ['nodes', 'tree', 'audit', 'dead-letters'],
  'One service alone (docs/reference/operations.md):': ['auth', 'compute', 'gateway', 'monitor', 'notify'],
};

/** Groups the commands there are by now, in the help alone. One that no group names stays under "Commands:". */
export function groupCommands(program: Command): void {
  const order = Object.values(GROUPS).flat();
  for (const [heading, names] of Object.entries(GROUPS))
    for (const command of program.commands) if (names.includes(command.name())) command.helpGroup(heading);
  const place = (command: Command) => (order.indexOf(command.name()) + order.length + 1) % (order.length + 1);
  const sorted = [...program.commands].sort((a, b) => place(a) - place(b));
  program.configureHelp({ visibleCommands: (command) => (command === program ? sorted : [...command.commands]) });
}
