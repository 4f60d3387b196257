/** `troupe actor`: one actor of the running platform, in whatever process it lives: what it does, and verbs for it. */
import { type ActorDetailsView, type ActorVerb, actOnActor, showActor } from '../../proto/auth/actors.ts';
import { callAsAdmin } from './admin-call.ts';
import { type CommandOptions, print } from './command.ts';
import { silentLine, spanText } from './tree.ts';

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
