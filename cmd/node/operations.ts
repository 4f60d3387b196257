/** What the process of a service adds to it: answers to operators, and problems of its own. */
import { type ActorView, listActors } from '../../proto/auth/endpoints.ts';
import type { Service } from '../../proto/endpoint.ts';
import { type SystemRef, type TreeNode, tree } from '../../supervision/index.ts';

/** Children of one actor that are listed: a tree is for reading. */
const MAX_CHILDREN = 100;

/** The service with the operators' endpoints added. */
export function withOperations(service: Service, system: SystemRef): Service {
  return {
    ...service,
    endpoints: [...service.endpoints, listActors],
    call: (endpoint, call) =>
      endpoint.name === listActors.name
        ? Promise.resolve({ actors: flat(tree(system, { maxChildren: MAX_CHILDREN })) })
        : service.call(endpoint, call),
  };
}

/** The service, which is not well while there is a `problem`. */
export function withProblem(service: Service, problem: () => string | undefined): Service {
  return {
    ...service,
    health: async () => {
      const health = await service.health();
      const more = problem();
      return more === undefined ? health : { ok: false, problems: [...health.problems, more] };
    },
  };
}

/** A tree as a list, a parent before its children. */
function flat(node: TreeNode): ActorView[] {
  const { path, kind, status, depth, oldestMs, restarts, handler, omitted = 0, children } = node;
  const now = handler === undefined ? {} : { handler };
  return [{ path, kind, status, depth, oldest_ms: oldestMs, restarts, ...now, omitted }, ...children.flatMap(flat)];
}
