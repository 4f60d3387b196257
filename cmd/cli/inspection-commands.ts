/** The commands that look into the platform: `nodes`, `tree`, `actor`, `audit`, `dead-letters`. */
import type { Command } from 'commander';
import { actionsOf } from '../config/actions.ts';
import { DATA, dataCommand, integer, PRINT_JSON } from '../config/options.ts';
import type { ActorOptions } from './actor.ts';
import type { AuditOptions } from './audit.ts';
import type { CommandOptions } from './command.ts';
import type { DrainOptions } from './nodes.ts';
import type { TreeCommandOptions } from './tree.ts';

const inDeadLetters = actionsOf(() => import('./dead-letters.ts'));

export function addInspectionCommands(program: Command): void {
  addNodes(program);

  program
    .command('tree')
    .description('show the actors of the running platform under their supervisors, of all its processes')
    .option('--node <node>', 'only of this process: its address, its id, or the beginning of that')
    .option(...DATA)
    .option(...PRINT_JSON)
    .action(async (options: TreeCommandOptions) => (await import('./tree.ts')).showTree(options));

  addActor(program);

  program
    .command('audit')
    .description('show who did what from where, oldest first (works while the platform runs)')
    .option(...DATA)
    .option('--user <name>', 'only what this user did; "operator" is the command line')
    .option('--action <noun[.verb]>', 'only this: "token.create", or "token" for all about tokens')
    .option('--since <time>', 'only what is not older: 30m, 24h, 7d, or a date such as 2026-01-31T12:00Z')
    .option('--limit <n>', 'the newest n entries', '50')
    .option('--follow', 'go on with what happens from now on, until interrupted')
    .option('--json', 'print each entry as one line of JSON')
    .action(async (options: AuditOptions) => (await import('./audit.ts')).showAudit(options));

  addDeadLetters(program);
}

function addNodes(program: Command): void {
  const nodes = dataCommand(
    program,
    'nodes',
    'show the nodes of the cluster: roles, shards, leases, versions (works whatever they do); or drain one',
  ).action(async (options: CommandOptions) => (await import('./nodes.ts')).showNodes(options));
  // It has --data and --json of `nodes`.
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
    .action(async (name: string, options: Omit<DrainOptions, keyof CommandOptions>) =>
      (await import('./nodes.ts')).drainNode(name, { ...nodes.opts<CommandOptions>(), ...options }),
    );
}

function addActor(program: Command): void {
  const actor = program
    .command('actor')
    .description('look at one actor of the running platform, or act on it; <path> is as `troupe tree --json` has it');
  const add = (name: string, description: string) =>
    actor
      .command(`${name} <path>`)
      .description(description)
      .option('--node <node>', 'the process it lives in: its address, its id, or the beginning of that')
      .option(...DATA)
      .option(...PRINT_JSON);
  add('show', 'what it does, what waits for it by type, its last crash').action(
    async (path: string, options: ActorOptions) => (await import('./actor.ts')).showOneActor(path, options),
  );
  const verbs = {
    stop: 'end it and all below it; a supervisor starts its child again',
    reset: 'start it afresh: its children end, its state is made anew, what waits stays',
    release: 'put an entity to sleep once it has handled what waits; the next message wakes it from storage',
  } as const;
  for (const verb of ['stop', 'reset', 'release'] as const) {
    add(verb, verbs[verb])
      .option('--force', 'although other actors depend on it')
      .action(async (path: string, options: ActorOptions) => (await import('./actor.ts')).actOn(verb, path, options));
  }
}

function addDeadLetters(program: Command): void {
  const deadLetters = program
    .command('dead-letters')
    .description('messages that a service gave up after too many attempts (works while the platform runs)');
  const ofStream = ['--stream <name>', 'only those of this stream, such as NOTIFICATIONS'] as const;
  deadLetters
    .command('list')
    .description('list the newest')
    .option(...ofStream)
    .option('--limit <n>', 'at most so many', integer, 50)
    .option(...DATA)
    .option(...PRINT_JSON)
    .action(inDeadLetters((of) => of.deadLettersList));
  dataCommand(deadLetters, 'show <id>', 'show one with its content').action(inDeadLetters((of) => of.deadLettersShow));
  deadLetters
    .command('replay [ids...]')
    .description('send them to their streams again; those replayed before are left alone')
    .option(...ofStream)
    .option('--all', 'all there are')
    .option('--again', 'also those replayed before')
    .option(...DATA)
    .option(...PRINT_JSON)
    .action(inDeadLetters((of) => of.deadLettersReplay));
  deadLetters
    .command('discard [ids...]')
    .description('delete them for good')
    .option(...ofStream)
    .option('--all', 'all there are')
    .option(...DATA)
    .option(...PRINT_JSON)
    .action(inDeadLetters((of) => of.deadLettersDiscard));
}
