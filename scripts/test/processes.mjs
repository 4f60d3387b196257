/** Finds processes that tests started and left running, by /proc. On systems without it, nothing is found. */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

const LOOK_EVERY_MS = 500;
const GRACE_MS = 5000;

/**
 * Watches what descends from process `root`, since some programs overwrite the environment that the marker is looked for
 * in. Returns `left()`, which resolves, after a grace period, with `{pid, command}` of each process that is still there
 * and descends from `root` or carries `marker` (`NAME=value`) in its environment.
 */
export function watchProcesses(root, marker) {
  /** Descendants that were seen, by process id and start time, since ids are used again. */
  const seen = new Map([[root, startOf(root)]]);
  const look = () => {
    const all = listLately();
    const starts = new Map(all.map(({ pid, start }) => [pid, start]));
    const isOurs = (pid) => seen.has(pid) && seen.get(pid) === starts.get(pid);
    for (let found = true; found; ) {
      found = false;
      for (const { pid, parent, start } of all) {
        if (seen.get(pid) === start || !isOurs(parent)) continue;
        seen.set(pid, start);
        found = true;
      }
    }
    return all;
  };
  const timer = setInterval(look, LOOK_EVERY_MS);
  const remaining = () =>
    list().filter(({ pid, start }) => (pid !== root && seen.get(pid) === start) || hasMarker(pid, marker));
  return {
    look,
    async left() {
      clearInterval(timer);
      const deadline = Date.now() + GRACE_MS;
      while (remaining().length > 0 && Date.now() < deadline) await delay(50);
      return remaining().map(({ pid, name }) => ({ pid, command: commandOf(pid) || name }));
    },
  };
}

/** All processes that run; zombies have ended. */
function list() {
  return entries()
    .map((pid) => statOf(pid))
    .filter((stat) => stat !== undefined && stat.state !== 'Z' && stat.state !== 'X');
}

/** The same, as it was at most half a look ago: many lanes look, and each would read all of /proc. */
let lately = { at: Number.NEGATIVE_INFINITY, all: [] };
function listLately() {
  if (performance.now() - lately.at > LOOK_EVERY_MS / 2) lately = { at: performance.now(), all: list() };
  return lately.all;
}

function entries() {
  try {
    return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : []));
  } catch {
    return [];
  }
}

/** Fields of proc(5)'s stat; the name in parentheses may hold anything. */
function statOf(pid) {
  const text = read(`/proc/${pid}/stat`);
  const end = text.lastIndexOf(')');
  if (end < 0) return undefined;
  const fields = text.slice(end + 2).split(' ');
  return {
    pid,
    name: text.slice(text.indexOf('(') + 1, end),
    state: fields[0],
    parent: Number(fields[1]),
    start: fields[19],
  };
}

function startOf(pid) {
  return statOf(pid)?.start;
}

function hasMarker(pid, marker) {
  return pid !== process.pid && read(`/proc/${pid}/environ`).split('\0').includes(marker);
}

function commandOf(pid) {
  return read(`/proc/${pid}/cmdline`).split('\0').join(' ').trim().slice(0, 200);
}

function read(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
