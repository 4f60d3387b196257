import type { z } from 'zod';
import { besides, labels, names, podNameOf } from './naming.ts';
import { askerOf, isMember } from './network-objects.ts';
import { type NamespaceView, objectView, podView, type ServiceView, serviceView } from './views.ts';

/** A resource that makes up containers. */
export type Resource = 'namespaces' | 'pods' | 'services';

const schemas = { namespaces: objectView, pods: podView, services: serviceView };

/** Objects of one installation. */
export interface ClusterObjects {
  readonly namespaces: readonly z.output<typeof objectView>[];
  readonly pods: readonly z.output<typeof podView>[];
  readonly services: readonly z.output<typeof serviceView>[];
}

/** What private networks are made of. */
export interface NetworkObjects {
  /** Namespaces of a user's containers that are in one. */
  members(userId: string): readonly NamespaceView[];
  /** Services by which the member in a namespace finds others. */
  names(namespace: string): readonly ServiceView[];
}

/** What watches know of the cluster: asking for all containers costs the API server nothing while they stand. */
export class ClusterCache {
  readonly #objects = {
    namespaces: new Map<string, z.output<typeof objectView>>(),
    pods: new Map<string, z.output<typeof podView>>(),
    services: new Map<string, z.output<typeof serviceView>>(),
  };
  readonly #standing = new Set<Resource>();
  /** Names of namespaces by container. */
  readonly #namespaces = new Map<string, string>();
  /** By user. */
  readonly #members = new Groups<NamespaceView>();
  /** By namespace. */
  readonly #names = new Groups<ServiceView>();
  readonly #waiting = new Map<string, Set<() => void>>();

  /** Replaces all of a resource. Objects that cannot be read are as if they were not there. */
  listed(resource: Resource, items: readonly unknown[]): void {
    this.#objects[resource].clear();
    if (resource === 'namespaces') for (const known of [this.#namespaces, this.#members]) known.clear();
    if (resource === 'services') this.#names.clear();
    for (const item of items) this.changed(resource, 'ADDED', item);
    if (resource === 'pods') for (const key of this.#waiting.keys()) this.#tell(key);
  }

  changed(resource: Resource, type: string, object: unknown): void {
    const { success, data } = schemas[resource].safeParse(object);
    if (!success) return;
    const { namespace, name } = data.metadata;
    const key = `${namespace}/${name}`;
    if (resource === 'services' && askerOf(data.metadata.labels) !== undefined) {
      if (type === 'DELETED') this.#names.remove(namespace, name);
      else this.#names.put(namespace, name, serviceView.parse(object));
      return;
    }
    if (type === 'DELETED') this.#objects[resource].delete(key);
    else if (resource === 'pods') this.#objects.pods.set(key, podView.parse(object));
    else if (resource === 'services') this.#objects.services.set(key, serviceView.parse(object));
    else this.#objects.namespaces.set(key, data);
    if (resource === 'pods') this.#tell(key);
    const user = data.metadata.labels[labels.user] ?? '';
    if (resource === 'namespaces' && type !== 'DELETED' && isMember(data)) this.#members.put(user, name, data);
    else if (resource === 'namespaces') this.#members.remove(user, name);
    const container = resource === 'namespaces' ? data.metadata.labels[labels.container] : undefined;
    if (container === undefined) return;
    if (type === 'DELETED') this.#namespaces.delete(container);
    else this.#namespaces.set(container, name);
  }

  /** The namespace of a container; undefined when none was heard of, or a watch does not stand. */
  namespaceOf(container: string): string | undefined {
    return this.#standing.has('namespaces') ? this.#namespaces.get(container) : undefined;
  }

  /** A pod as it was last heard of; undefined when it was not, or the watch of pods does not stand. */
  pod(namespace: string, name: string): z.output<typeof podView> | undefined {
    return this.#standing.has('pods') ? this.#objects.pods.get(`${namespace}/${name}`) : undefined;
  }

  /** Resolves when something is heard of a pod, or after `mostMs`. */
  podChange(namespace: string, name: string, mostMs: number): Promise<void> {
    const key = `${namespace}/${name}`;
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(key) ?? new Set();
      this.#waiting.set(key, waiting);
      const done = (): void => {
        clearTimeout(timer);
        waiting.delete(done);
        if (waiting.size === 0 && this.#waiting.get(key) === waiting) this.#waiting.delete(key);
        resolve();
      };
      const timer = setTimeout(done, mostMs);
      waiting.add(done);
    });
  }

  /** What private networks are made of; undefined while a watch does not stand. */
  networks(): NetworkObjects | undefined {
    if (this.#standing.size < 3) return undefined;
    return { members: (userId) => this.#members.of(userId), names: (namespace) => this.#names.of(namespace) };
  }

  #tell(key: string): void {
    for (const done of [...(this.#waiting.get(key) ?? [])]) done();
  }

  /** Where the pods of a container may be: its own, and those beside it. */
  #podNames(namespace: string): string[] {
    const name = podNameOf(this.#objects.namespaces.get(`/${namespace}`)?.metadata.annotations ?? {});
    return [name, ...besides(name)];
  }

  stands(resource: Resource, whether: boolean): void {
    if (whether) this.#standing.add(resource);
    else this.#standing.delete(resource);
  }

  /** Whether what is known of a resource is up to a moment ago. */
  isCurrent(resource: Resource): boolean {
    return this.#standing.has(resource);
  }

  /** All there is, or what there is of these containers; undefined while a watch does not stand. */
  read(containers?: readonly string[]): ClusterObjects | undefined {
    if (this.#standing.size < 3) return undefined;
    const { namespaces, pods, services } = this.#objects;
    if (containers !== undefined) {
      const found = containers.flatMap((container) => this.#namespaces.get(container) ?? []);
      return {
        namespaces: found.flatMap((name) => namespaces.get(`/${name}`) ?? []),
        pods: found.flatMap((name) => this.#podNames(name).flatMap((pod) => pods.get(`${name}/${pod}`) ?? [])),
        services: found.flatMap((name) => services.get(`${name}/${names.service}`) ?? []),
      };
    }
    return {
      namespaces: [...namespaces.values()],
      pods: [...pods.values()],
      services: [...services.values()],
    };
  }
}

/** Objects by the group they are in and their name. */
class Groups<T> {
  readonly #groups = new Map<string, Map<string, T>>();

  put(group: string, name: string, object: T): void {
    const members = this.#groups.get(group) ?? new Map<string, T>();
    this.#groups.set(group, members.set(name, object));
  }

  remove(group: string, name: string): void {
    const members = this.#groups.get(group);
    members?.delete(name);
    if (members?.size === 0) this.#groups.delete(group);
  }

  of(group: string): readonly T[] {
    return [...(this.#groups.get(group)?.values() ?? [])];
  }

  clear(): void {
    this.#groups.clear();
  }
}
