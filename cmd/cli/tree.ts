/** `troupe tree`: the actors of the running platform, as they stand under their supervisors. */
import { type ActorProcess, type ActorView, listActors } from '../../proto/auth/actors.ts';
import { callAsAdmin } from './admin-call.ts';
import type { CommandOptions } from './command.ts';

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
