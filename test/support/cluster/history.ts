/**
 * Judges what clients saw of entities, and what was written, in a trial. An entity is a register: a write sets a value that no other write
 * sets, a read tells the value. Pure: knows nothing of processes.
 */

/** One call of a client. Times are of one monotonic clock, in ms. */
export interface Operation {
  readonly entity: string;
  readonly type: 'write' | 'read';
  /** What was written, or what a read told; undefined for a read that told nothing. */
  readonly value: string | undefined;
  readonly called: number;
  readonly returned: number;
  /** `refused`: certainly without effect. `unknown`: with or without, now or later. */
  readonly outcome: 'ok' | 'refused' | 'unknown';
}

/** A write as storage took it, in the order of storage for each entity. */
export interface Effect {
  readonly entity: string;
  readonly value: string;
  /** The node whose connection wrote. */
  readonly writer: string;
  /** The node that owned the entity's shard when the write was committed; undefined: nobody did. */
  readonly owner: string | undefined;
}

/** Who owned a shard from when on, in the order of storage. */
export interface Reign {
  readonly shard: number;
  readonly epoch: number;
  readonly owner: string | undefined;
}

export interface History {
  /** What entities held before. */
  readonly initial: ReadonlyMap<string, string>;
  readonly operations: readonly Operation[];
  readonly effects: readonly Effect[];
  readonly reigns: readonly Reign[];
  /** What entities hold at the end. */
  readonly final: ReadonlyMap<string, string>;
}

/**
 *  lost         a write was acknowledged and is not there
 *  duplicated   a write took effect twice
 *  phantom      a write that was refused, or that nobody made, took effect
 *  fenced       a write was taken of a node that did not own the entity
 *  disordered   a write that began after another had ended lies before it
 *  stale        a read told what had been overwritten before it began, or what an earlier read no longer saw
 *  unborn       a read told a value before its write began, or one that never was
 *  overthrown   an epoch of a shard began twice, or went back
 *  forgotten    the end is not what was written last
 */
export type Fault =
  | 'lost'
  | 'duplicated'
  | 'phantom'
  | 'fenced'
  | 'disordered'
  | 'stale'
  | 'unborn'
  | 'overthrown'
  | 'forgotten';

/** What is wrong, with a sentence for each. */
export interface Finding {
  readonly fault: Fault;
  readonly what: string;
}

/** How much was judged: a verdict over nothing says nothing. */
export interface Verdict {
  readonly findings: readonly Finding[];
  readonly writes: number;
  readonly reads: number;
  readonly unknown: number;
  readonly effects: number;
  readonly owners: number;
}

/** Finds everything that no single, careful owner at a time could have done. */
export function judge(history: History): Verdict {
  const { operations, effects, reigns } = history;
  const entities = new Set([...operations, ...effects].map(({ entity }) => entity));
  const operationsOf = byEntity(operations);
  const effectsOf = byEntity(effects);
  const findings: Finding[] = [];
  for (const entity of entities) {
    const own = { operations: operationsOf.get(entity) ?? [], effects: effectsOf.get(entity) ?? [] };
    findings.push(...judgeOne(entity, own.operations, own.effects, history.initial.get(entity)));
    const last = own.effects.at(-1)?.value ?? history.initial.get(entity);
    const final = history.final.get(entity);
    if (final !== last)
      findings.push({ fault: 'forgotten', what: `${entity} holds ${final}, written last was ${last}` });
  }
  findings.push(...judgeReigns(reigns));
  const acknowledged = operations.filter(({ outcome }) => outcome === 'ok');
  return {
    findings,
    writes: acknowledged.filter(({ type }) => type === 'write').length,
    reads: acknowledged.filter(({ type }) => type === 'read').length,
    unknown: operations.filter(({ outcome }) => outcome === 'unknown').length,
    effects: effects.length,
    owners: new Set(effects.map(({ owner }) => owner)).size,
  };
}

function byEntity<T extends { readonly entity: string }>(items: readonly T[]): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(item.entity);
    if (group === undefined) groups.set(item.entity, [item]);
    else group.push(item);
  }
  return groups;
}

function judgeOne(
  entity: string,
  operations: readonly Operation[],
  effects: readonly Effect[],
  initial: string | undefined,
): Finding[] {
  const findings: Finding[] = [];
  const find = (fault: Fault, what: string) => findings.push({ fault, what: `${entity}: ${what}` });
  const writes = operations.filter(({ type }) => type === 'write');
  const written = new Map(writes.map((write) => [write.value, write]));

  // Positions count from 1; 0 is what was there before.
  const positions = new Map<string, number>(initial === undefined ? [] : [[initial, 0]]);
  for (const [at, { value, writer, owner }] of effects.entries()) {
    const write = written.get(value);
    if (write === undefined) find('phantom', `nobody wrote ${value}`);
    else if (write.outcome === 'refused') find('phantom', `${value} was refused, and written`);
    if (positions.has(value)) find('duplicated', `${value} was written twice`);
    else positions.set(value, at + 1);
    if (owner !== writer) find('fenced', `${value} was written by ${writer} while ${owner ?? 'nobody'} was the owner`);
  }
  for (const { value = '', outcome } of writes) {
    if (outcome === 'ok' && !positions.has(value)) find('lost', `${value} was acknowledged and is not there`);
  }

  /** The interval in which an operation was at a position of the order. */
  const placed = operations.flatMap((operation) => {
    const { type, value, outcome } = operation;
    if (type === 'read' && outcome !== 'ok') return [];
    const position = value === undefined ? undefined : positions.get(value);
    if (position === undefined && type === 'read') find('unborn', `a read told ${value}, which never was`);
    return position === undefined ? [] : [{ operation, position }];
  });
  for (const { operation, position } of placed) {
    if (operation.type === 'write') continue;
    const write = written.get(operation.value ?? '');
    if (position > 0 && write !== undefined && write.called >= operation.returned) {
      find('unborn', `a read told ${operation.value} before its write began`);
    }
  }
  findings.push(...judgeOrder(entity, placed));
  return findings;
}

interface Placed {
  readonly operation: Operation;
  readonly position: number;
}

/** Whatever ended before something else began must not lie behind it. */
function judgeOrder(entity: string, placed: readonly Placed[]): Finding[] {
  const findings: Finding[] = [];
  // Of an unknown outcome nobody knows the end: it may have been any time later.
  const ended = placed
    .filter(({ operation }) => operation.outcome === 'ok')
    .sort((a, b) => a.operation.returned - b.operation.returned);
  const begun = [...placed].sort((a, b) => a.operation.called - b.operation.called);
  let newest: Placed | undefined;
  let at = 0;
  for (const one of begun) {
    for (
      let next = ended[at];
      next !== undefined && next.operation.returned < one.operation.called;
      next = ended[++at]
    ) {
      if (newest === undefined || next.position > newest.position) newest = next;
    }
    if (newest === undefined || one.position >= newest.position) continue;
    const [earlier, later] = [newest.operation.value, one.operation.value];
    if (one.operation.type === 'read') {
      findings.push({
        fault: 'stale',
        what: `${entity}: a read told ${later} when ${earlier} had been seen or written`,
      });
    } else {
      findings.push({ fault: 'disordered', what: `${entity}: ${later} began after ${earlier} and lies before it` });
    }
  }
  return findings;
}

function judgeReigns(reigns: readonly Reign[]): Finding[] {
  const findings: Finding[] = [];
  const last = new Map<number, number>();
  for (const { shard, epoch, owner } of reigns) {
    const before = last.get(shard);
    if (before !== undefined && epoch <= before) {
      findings.push({ fault: 'overthrown', what: `shard ${shard}: epoch ${epoch} of ${owner} after ${before}` });
    }
    last.set(shard, Math.max(epoch, before ?? 0));
  }
  return findings;
}

/** Where a part of the values lies, in the order of size; 0 of none. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(part * sorted.length) - 1)] ?? 0;
}
