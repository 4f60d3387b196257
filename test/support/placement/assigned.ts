import { Assignment } from '../../../supervision/placement/assignment.ts';

/** Which of these nodes, of the same weight or with their weights by id, should hold each shard of a service. */
export function assigned(
  service: string,
  count: number,
  nodes: readonly string[] | ReadonlyMap<string, number>,
): readonly (string | undefined)[] {
  const assignment = new Assignment(service, count);
  assignment.update(nodes instanceof Map ? nodes : new Map([...nodes].map((id) => [id, 1])));
  return assignment.owners;
}
