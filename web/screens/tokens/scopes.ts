/** The rights that a token can have, as they are ticked and as they are sent. */

/** A kind of thing and what can be done with it. */
interface RightsArea {
  readonly area:
    | 'compute.containers'
    | 'compute.keys'
    | 'networking.domain-mappings'
    | 'networking.domains'
    | 'storage.registry';
  readonly actions: readonly string[];
}

export const AREAS: readonly RightsArea[] = [
  { area: 'compute.containers', actions: ['read', 'create', 'update', 'delete', 'start', 'stop'] },
  { area: 'compute.keys', actions: ['read', 'create', 'delete'] },
  { area: 'networking.domain-mappings', actions: ['read', 'create', 'delete'] },
  { area: 'networking.domains', actions: ['read', 'create', 'delete'] },
  { area: 'storage.registry', actions: ['pull', 'push', 'delete'] },
];

/** What is ticked. */
export interface RightsDraft {
  readonly actions: Readonly<Record<string, readonly string[]>>;
  /** The one container that it is about; empty: all. */
  readonly container: string;
}

/** As the platform takes them: keys name the user, and the container if it is one. */
export function scopesFrom({ actions, container }: RightsDraft, userId: string): Record<string, string[]> {
  return Object.fromEntries(
    Object.entries(actions).flatMap(([area, chosen]) => {
      if (chosen.length === 0) return [];
      const [service = '', resource = ''] = area.split('.');
      const key = `${service}.${userId}.${resource}`;
      return [[area === 'compute.containers' && container !== '' ? `${key}.${container}` : key, [...chosen]]];
    }),
  );
}
