import type { StopReason } from '../types.ts';
import type { Cell } from './cell.ts';
import { ENDED } from './flags.ts';
import { notify } from './notify.ts';

const unknownReason: StopReason = Object.freeze({ kind: 'stopped' });

/** Sends `watcher` the message `toMessage` makes of the reason once `target` has ended; at once if it has. */
export function watch(watcher: Cell, target: Cell, toMessage: (reason: StopReason) => unknown): void {
  if (!watcher.taking) return;
  if ((target.flags & ENDED) !== 0) {
    tell(watcher, target.reason ?? unknownReason, toMessage);
    return;
  }
  const theirs = target.parts;
  if (theirs.watchers === undefined) theirs.watchers = new Map();
  theirs.watchers.set(watcher, toMessage);
  const mine = watcher.parts;
  if (mine.watching === undefined) mine.watching = new Set();
  mine.watching.add(target);
}

export function unwatch(watcher: Cell, target: Cell): void {
  target.rare?.watchers?.delete(watcher);
  watcher.rare?.watching?.delete(target);
}

/** The watcher ends, or is reset: it hears of nobody's end any more. */
export function unwatchAll(watcher: Cell): void {
  const watching = watcher.rare?.watching;
  if (watching === undefined) return;
  for (const target of watching) target.rare?.watchers?.delete(watcher);
  watching.clear();
}

/** Tells all watchers of an actor that has ended. */
export function tellWatchers(
  watchers: Map<Cell, (reason: StopReason) => unknown>,
  target: Cell,
  reason: StopReason,
): void {
  for (const [watcher, toMessage] of watchers) {
    watcher.rare?.watching?.delete(target);
    tell(watcher, reason, toMessage);
  }
}

function tell(watcher: Cell, reason: StopReason, toMessage: (reason: StopReason) => unknown): void {
  try {
    notify(watcher, toMessage(reason));
  } catch (err) {
    watcher.kind.system.log.error({ actor: watcher.path, err }, 'a watch callback threw');
  }
}
