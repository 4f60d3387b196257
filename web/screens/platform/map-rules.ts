/**
 * The graph of dependencies as people look at it: five ranks, with all routes and hostnames in the gateway that matches
 * them, all containers as one, and no actors.
 */
import type { CallReply } from '../../../client/index.ts';

type DependencyGraph = CallReply<'dependencyGraph'>;
type GraphMember = DependencyGraph['nodes'][number];

/** How a part is. */
export type PartHealth = 'ok' | 'warn' | 'bad';

/** A box of the map. */
export interface MapPart {
  readonly id: string;
  /** 0, outside, to 4, machines. */
  readonly rank: number;
  readonly health: PartHealth;
  /** As the platform says it. */
  readonly status: string;
  /** How many things of each kind it stands for. */
  readonly counts: Readonly<Record<string, number>>;
}

/** A line of the map. `total`: since the start, where it is counted. */
export interface MapLine {
  readonly from: string;
  readonly to: string;
  readonly kind: string;
  readonly total: number | undefined;
  readonly unit: string;
}

export interface DependencyMap {
  /** Unix ms. */
  readonly at: number;
  readonly parts: readonly MapPart[];
  readonly lines: readonly MapLine[];
}

export const CLIENTS = 'clients';
export const CONTAINERS = 'containers';
const GATEWAY = 'service:gateway';
const RANKS: Readonly<Record<string, number>> = { service: 2, storage: 3, bus: 3, engine: 3, node: 4, container: 4 };
const HEALTHY = new Set(['ok', 'serving', 'running', 'idle', 'busy', 'verified']);
const BROKEN = new Set(['down', 'gone', 'failed']);

export function mapOf({ nodes, edges, timestamp }: DependencyGraph): DependencyMap {
  const groups = new Map<string, GraphMember[]>();
  for (const node of nodes) {
    const id = groupOf(node.id);
    if (id !== undefined) groups.set(id, [...(groups.get(id) ?? []), node]);
  }
  const parts = [...groups].map(([id, members]) => partOf(id, members));
  const lines = linesOf(edges).filter(({ from, to }) => groups.has(from) && groups.has(to));
  if (!groups.has(GATEWAY)) return { at: Date.parse(timestamp), parts, lines };
  const clients: MapPart = { id: CLIENTS, rank: 0, health: 'ok', status: 'ok', counts: {} };
  const entry: MapLine = { from: CLIENTS, to: GATEWAY, kind: 'http', total: undefined, unit: '' };
  return { at: Date.parse(timestamp), parts: [clients, ...parts], lines: [entry, ...lines] };
}

/** The box that stands for a node of the graph; undefined for what is not drawn. */
function groupOf(id: string): string | undefined {
  switch (kindOf(id)) {
    case 'actor':
      return undefined;
    case 'route':
    case 'mapping':
      return GATEWAY;
    case 'container':
      return CONTAINERS;
    default:
      return id;
  }
}

function kindOf(id: string): string {
  return id.slice(0, id.indexOf(':'));
}

function partOf(id: string, members: readonly GraphMember[]): MapPart {
  const counts: Record<string, number> = {};
  for (const { kind } of members) counts[kind] = (counts[kind] ?? 0) + 1;
  // Containers and hostnames that failed are their users' concern, not the map's.
  const own = members.find((member) => member.id === id);
  const status = own?.status ?? 'ok';
  const health = HEALTHY.has(status) ? 'ok' : BROKEN.has(status) ? 'bad' : 'warn';
  const rank = id === GATEWAY ? 1 : (RANKS[members[0]?.kind ?? ''] ?? 2);
  return { id, rank, health, status, counts };
}

/** Each route of a service tells the same count, that of the service: it counts once, and targets add up. */
function linesOf(edges: DependencyGraph['edges']): MapLine[] {
  const lines = new Map<string, { line: MapLine; totals: Map<string, number> }>();
  for (const { from, to, kind, traffic } of edges) {
    const [start, end] = [groupOf(from), groupOf(to)];
    if (start === undefined || end === undefined || start === end) continue;
    const key = `${start} ${end} ${kind}`;
    const known = lines.get(key) ?? {
      line: { from: start, to: end, kind, total: undefined, unit: traffic?.unit ?? '' },
      totals: new Map<string, number>(),
    };
    if (traffic !== undefined) known.totals.set(to, Math.max(traffic.total, known.totals.get(to) ?? 0));
    lines.set(key, known);
  }
  return [...lines.values()].map(({ line, totals }) => ({
    ...line,
    total: totals.size === 0 ? undefined : [...totals.values()].reduce((sum, one) => sum + one, 0),
  }));
}

/** A box on the drawing. */
export interface PlacedPart {
  readonly part: MapPart;
  readonly x: number;
  readonly y: number;
}

export const BOX = { width: 176, height: 56 } as const;
const STEP = { x: 256, y: 76 } as const;
/** Above the boxes, for the names of the ranks. */
const HEAD = 36;
/** Ranks of the map. */
const RANK_COUNT = 5;

/** Where each box is: a column for each rank, in the middle of the height. */
export function placed(parts: readonly MapPart[]): { boxes: PlacedPart[]; width: number; height: number } {
  const columns = Array.from({ length: RANK_COUNT }, (_, rank) => parts.filter((part) => part.rank === rank));
  const tallest = Math.max(1, ...columns.map((column) => column.length));
  const boxes = columns.flatMap((column, rank) =>
    column.map((part, at) => ({
      part,
      x: rank * STEP.x,
      y: HEAD + ((tallest - column.length) / 2 + at) * STEP.y,
    })),
  );
  const width = (RANK_COUNT - 1) * STEP.x + BOX.width;
  return { boxes, width, height: HEAD + (tallest - 1) * STEP.y + BOX.height };
}

export function rankX(rank: number): number {
  return rank * STEP.x;
}

/** A curve between the sides of two boxes that look at each other. */
export function curveOf(from: PlacedPart, to: PlacedPart): string {
  const isForward = from.x < to.x;
  const [x1, x2] = isForward ? [from.x + BOX.width, to.x] : [from.x, to.x + BOX.width];
  const [y1, y2] = [from.y + BOX.height / 2, to.y + BOX.height / 2];
  const bend = (x2 - x1) / 2;
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

/** How wide a line is, of what it carried. */
export function widthOf(total: number | undefined): number {
  return total === undefined ? 1.25 : Math.min(7, 1.25 + Math.log10(1 + total));
}
