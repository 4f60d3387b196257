/** The command line of `troupe nodes drain`. */
import type { Command } from 'commander';

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
    .action(async (name: string, options: { cancel?: true; wait: boolean; force?: true }) => {
      const { drainNode } = await import('./drain.ts');
      const { data, json } = nodes.opts<{ data: string; json?: true }>();
      const [cancel, force] = [options.cancel === true, options.force === true];
      await drainNode(name, { data, json: json === true, cancel, force, wait: options.wait });
    });
}
