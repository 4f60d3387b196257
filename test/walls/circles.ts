/** Circles in a graph of imports. */

/** One import: from a file to a file, and where. */
export interface Edge {
  readonly from: string;
  readonly to: string;
  readonly line: number;
}

/**
 * The shortest way round for every edge that closes a circle, each circle once: the edges in order, starting with the file
 * that comes first by name.
 */
export function findCircles(edges: readonly Edge[]): Edge[][] {
  const outgoing = new Map<string, Edge[]>();
  for (const edge of edges) outgoing.set(edge.from, [...(outgoing.get(edge.from) ?? []), edge]);
  const circles = new Map<string, Edge[]>();
  for (const edge of edges) {
    const back = shortestWay(outgoing, edge.to, edge.from);
    if (back === undefined) continue;
    const circle = startingWithFirst([edge, ...back]);
    circles.set(circle.map(({ from }) => from).join(), circle);
  }
  return [...circles.values()];
}

function shortestWay(outgoing: ReadonlyMap<string, Edge[]>, from: string, to: string): Edge[] | undefined {
  const cameBy = new Map<string, Edge | undefined>([[from, undefined]]);
  for (const file of cameBy.keys()) {
    if (file === to) return wayBack(cameBy, to);
    for (const edge of outgoing.get(file) ?? []) {
      if (!cameBy.has(edge.to)) cameBy.set(edge.to, edge);
    }
  }
  return undefined;
}

function wayBack(cameBy: ReadonlyMap<string, Edge | undefined>, to: string): Edge[] {
  const way: Edge[] = [];
  for (let edge = cameBy.get(to); edge !== undefined; edge = cameBy.get(edge.from)) way.unshift(edge);
  return way;
}

function startingWithFirst(circle: readonly Edge[]): Edge[] {
  const first = circle.map(({ from }) => from).sort()[0];
  const at = circle.findIndex(({ from }) => from === first);
  return [...circle.slice(at), ...circle.slice(0, at)];
}
