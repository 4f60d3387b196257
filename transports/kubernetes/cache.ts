import type { z } from 'zod';
import { objectView, podView, serviceView } from './views.ts';

/** A resource that makes up containers. */
export type Resource = 'namespaces' | 'pods' | 'services';

const schemas = { namespaces: objectView, pods: podView, services: serviceView };

/** Objects of one installation. */
export interface ClusterObjects {
  readonly namespaces: readonly z.output<typeof objectView>[];
  readonly pods: readonly z.output<typeof podView>[];
  readonly services: readonly z.output<typeof serviceView>[];
}

/** What watches know of the cluster: asking for all containers costs the API server nothing while they stand. */
export class ClusterCache {
  readonly #objects = {
    namespaces: new Map<string, z.output<typeof objectView>>(),
    pods: new Map<string, z.output<typeof podView>>(),
    services: new Map<string, z.output<typeof serviceView>>(),
  };
  readonly #standing = new Set<Resource>();

  /** Replaces all of a resource. Objects that cannot be read are as if they were not there. */
  listed(resource: Resource, items: readonly unknown[]): void {
    this.#objects[resource].clear();
    for (const item of items) this.changed(resource, 'ADDED', item);
  }

  changed(resource: Resource, type: string, object: unknown): void {
    const { success, data } = schemas[resource].safeParse(object);
    if (!success) return;
    const { namespace, name } = data.metadata;
    const key = `${namespace}/${name}`;
    if (type === 'DELETED') this.#objects[resource].delete(key);
    else if (resource === 'pods') this.#objects.pods.set(key, podView.parse(object));
    else if (resource === 'services') this.#objects.services.set(key, serviceView.parse(object));
    else this.#objects.namespaces.set(key, data);
  }

  stands(resource: Resource, whether: boolean): void {
    if (whether) this.#standing.add(resource);
    else this.#standing.delete(resource);
  }

  /** All there is; undefined while a watch does not stand. */
  read(): ClusterObjects | undefined {
    if (this.#standing.size < 3) return undefined;
    const { namespaces, pods, services } = this.#objects;
    return {
      namespaces: [...namespaces.values()],
      pods: [...pods.values()],
      services: [...services.values()],
    };
  }
}
