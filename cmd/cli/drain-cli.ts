/** The command line of `troupe nodes drain`. */
import type { Command } from 'commander';
import type { CommandOptions } from './command.ts';
import type { DrainOptions } from './nodes.ts';

/** Adds it to `nodes`, whose --data and --json it shares. */
export function addDrain(nodes: Command): void {
  nodes
    .command('drain <node>')
    .description(
      'let a node give its entities to others, and wait until it has; <node> is its id, the beginning of it, or ' +
        'its address',
    )
    .option('--cancel', 'let it take its share again')
    .option('--no-wait', 'do not wait until it is done')
    .option('--force', 'although nobody else serves what it does')
    .configureHelp({ showGlobalOptions: true })
    .action(async (name: string, options: Omit<DrainOptions, keyof CommandOptions>) => {
      const { drainNode } = await import('./nodes.ts');
      await drainNode(name, { ...nodes.opts<CommandOptions>(), ...options });
    });
}
