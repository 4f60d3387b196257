/**
 * `troupe tree`: the actors of the running platform, as they stand under their supervisors. `troupe actor`: one of
 * them, in whatever process it lives, and verbs for it.
 */
import {
  type ActorDetailsView,
  type ActorProcess,
  type ActorVerb,
  type ActorView,
  actOnActor,
  listActors,
  showActor,
} from '../../proto/auth/actors.ts';
import { callAsAdmin } from './admin-call.ts';
import { type CommandOptions, print } from './command.ts';

/** Options as the command line gives them. */
export interface TreeCommandOptions extends CommandOptions {
  /** Only the process of this address, or node of this id. */
  readonly node?: string;
}

/** Prints the trees of all processes. Those that are silent are named, with --json on stderr. */
export async function showTree(options: TreeCommandOptions): Promise<void> {
  const { node } = options;
  const query = node === undefined ? { all: 'true' } : { node };
  const { actors, processes = [] } = await callAsAdmin(options, listActors, { query });
  const silent = processes.filter(({ status }) => status === 'silent');
  if (options.json) {
    process.stdout.write(`${JSON.stringify(actors)}\n`);
    for (const one of silent) process.stderr.write(`${silentLine(one)}\n`);
  } else process.stdout.write(drawForest(actors, processes));
}

/** A process under its address; without addresses where there is one alone. */
export function drawForest(actors: readonly ActorView[], processes: readonly ActorProcess[]): string {
  const [only] = processes;
  if (processes.length < 2 && only?.status !== 'silent') return drawTree(actors);
  return processes
    .map((one) => {
      if (one.status === 'silent') return `${silentLine(one)}\n`;
      const tree = drawTree(actors.filter((actor) => actor.node === one.address));
      return `${processText(one)}\n${tree.replaceAll(/^(?=.)/gm, '  ')}`;
    })
    .join('\n');
}

function processText({ address, id }: ActorProcess): string {
  return id === undefined ? address : `${address}  (node ${id})`;
}

/** Of a process that did not answer. */
export function silentLine(one: ActorProcess): string {
  return `${processText(one)} did not answer${one.name === undefined ? '' : `; it ran ${one.name}`}.`;
}

/** One line an actor, indented by its place: name, kind, what is worth a look (messages, restarts, not idle). */
function drawTree(actors: readonly ActorView[]): string {
  return actors
    .map(({ path, kind, status, depth, oldest_ms, restarts, handler, omitted }) => {
      // `<system>://<name>/<name>`, the root without a name.
      const parts = path.split('/').filter((part) => part !== '');
      const notes = [
        status === 'idle' ? '' : status,
        handler === undefined ? '' : `${handler.message} for ${spanText(handler.ms)}`,
        depth === 0 ? '' : `${depth} waiting, oldest ${spanText(oldest_ms)}`,
        restarts === 0 ? '' : `${restarts} restarts`,
        omitted === 0 ? '' : `${omitted} more children`,
      ].filter((note) => note !== '');
      const name = decodeURIComponent(parts.at(-1) ?? '').replace(/:$/, '');
      return `${'  '.repeat(parts.length - 1)}${name}  [${kind}]${notes.length === 0 ? '' : `  ${notes.join(', ')}`}\n`;
    })
    .join('');
}

/** A time span for people. */
export function spanText(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 120_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 60_000)} min`;
}

/** Options as the command line gives them. */
export interface ActorOptions extends CommandOptions {
  readonly node?: string;
  /** Although others depend on it. */
  readonly force?: boolean;
}

/** Prints what is known of the actor, once for each process that has one at the path. Throws CliError. */
export async function showOneActor(path: string, options: ActorOptions): Promise<void> {
  const { actors, processes } = await callAsAdmin(options, showActor, { query: { path, node: options.node } });
  print(options, actors, () => actors.map(drawActor).join('\n\n'));
  for (const one of processes) if (one.status === 'silent') process.stderr.write(`${silentLine(one)}\n`);
}

/** Stops, resets or releases the actor. Throws CliError, with the reason of a refusal. */
export async function actOn(verb: ActorVerb, path: string, options: ActorOptions): Promise<void> {
  const { node, force = false } = options;
  const body = { verb, path, force, ...(node === undefined ? {} : { node }) };
  const done = await callAsAdmin(options, actOnActor, { body });
  print(options, done, () => `${done.path} on ${done.node} ${done.is_done ? DONE[verb] : BEGUN[verb]}`);
}

const DONE: Readonly<Record<ActorVerb, string>> = {
  stop: 'has stopped.',
  reset: 'is reset: its state is made anew.',
  release: 'is asleep: the next message wakes it from storage.',
};

const BEGUN: Readonly<Record<ActorVerb, string>> = {
  stop: 'stops once its handler ends, or is abandoned.',
  reset: DONE.reset,
  release: 'goes to sleep once it has handled what waits.',
};

/** A line for each thing there is to say. */
export function drawActor(actor: ActorDetailsView): string {
  const { handlers, waiting, last_crash: crash, depth } = actor;
  const rows: (readonly [string, string])[] = [
    ['path', actor.path],
    ['node', actor.node],
    ['kind', actor.is_entity ? `${actor.kind} (entity)` : actor.kind],
    ['status', actor.restarts === 0 ? actor.status : `${actor.status}, ${actor.restarts} restarts lately`],
    ...handlers.map(({ message, ms }) => ['handles', `${message} for ${spanText(ms)}`] as const),
    ['waiting', depth === 0 ? 'nothing' : `${depth}, the oldest for ${spanText(actor.oldest_ms)}`],
    ...waiting.map(({ message, count }) => ['', `${count} ${message}`] as const),
    ['children', String(actor.children)],
  ];
  if (crash !== undefined) {
    const error = crash.code === undefined ? crash.error : `${crash.error} (${crash.code})`;
    rows.push(['last crash', `${new Date(crash.at).toISOString()} while it handled ${crash.message}`]);
    rows.push(['', `${error}: ${crash.text}`]);
  }
  return rows.map(([head, text]) => `${head.padEnd(12)}${text}`).join('\n');
}
