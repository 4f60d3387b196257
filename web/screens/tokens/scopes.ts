/** The rights that a token can have: as they are ticked, as they are sent, and in a sentence. */
import type { CallReply } from '../../../client/index.ts';
import { t } from '../../text/text.ts';

/** A service account, as lists have it. */
export type ServiceAccountLine = CallReply<'listServiceAccounts'>[number];

const AREA_NAMES = [
  'compute.containers',
  'compute.keys',
  'networking.domain-mappings',
  'networking.domains',
  'storage.registry',
] as const;

type AreaName = (typeof AREA_NAMES)[number];

/** A kind of thing and what can be done with it. */
interface RightsArea {
  readonly area: AreaName;
  readonly actions: readonly string[];
}

export const AREAS: readonly RightsArea[] = [
  { area: 'compute.containers', actions: ['read', 'create', 'update', 'delete', 'start', 'stop'] },
  { area: 'compute.keys', actions: ['read', 'create', 'delete'] },
  { area: 'networking.domain-mappings', actions: ['read', 'create', 'delete'] },
  { area: 'networking.domains', actions: ['read', 'create', 'delete'] },
  { area: 'storage.registry', actions: ['pull', 'push', 'delete'] },
];

type ActionsByScope = Readonly<Record<string, readonly string[]>>;

/** What is ticked. */
export interface RightsDraft {
  readonly actions: ActionsByScope;
  /** The one container that it is about; empty: all. */
  readonly container: string;
  /** What was given elsewhere, and has no box here: it stays as it is. */
  readonly others: ActionsByScope;
}

export const NO_RIGHTS: RightsDraft = { actions: {}, container: '', others: {} };

/** As the platform takes them: keys name the user, and the container if it is one. */
export function scopesFrom({ actions, container, others }: RightsDraft, userId: string): Record<string, string[]> {
  const ticked = Object.entries(actions).flatMap(([area, chosen]): [string, string[]][] => {
    if (chosen.length === 0) return [];
    const [service = '', resource = ''] = area.split('.');
    const key = `${service}.${userId}.${resource}`;
    return [[area === 'compute.containers' && container !== '' ? `${key}.${container}` : key, [...chosen]]];
  });
  const kept = Object.entries(others).map(([key, chosen]): [string, string[]] => [key, [...chosen]]);
  return Object.fromEntries([...kept, ...ticked]);
}

/** The boxes that stand for scopes. What has none is among `others`. */
export function draftFrom(scopes: ActionsByScope): RightsDraft {
  const actions: Record<string, readonly string[]> = {};
  const others: Record<string, readonly string[]> = {};
  let container = '';
  for (const [key, chosen] of Object.entries(scopes)) {
    const [service = '', , resource = '', ...rest] = key.split('.');
    const known = AREAS.find(({ area }) => area === `${service}.${resource}`);
    const one = rest.join('.');
    const hasBoxes = known !== undefined && chosen.every((action) => known.actions.includes(action));
    const isFree = known !== undefined && actions[known.area] === undefined;
    if (!hasBoxes || !isFree || (one !== '' && known.area !== 'compute.containers')) others[key] = chosen;
    else {
      actions[known.area] = chosen;
      if (one !== '') container = one;
    }
  }
  return { actions, container, others };
}

/** `It may read and start the container web, and read all SSH keys.` */
export function rightsSentence({ actions, container, others }: RightsDraft, nameOf: (id: string) => string): string {
  const parts = AREAS.flatMap(({ area }) => {
    const chosen = actions[area] ?? [];
    if (chosen.length === 0) return [];
    const isOne = area === 'compute.containers' && container !== '';
    return [`${listed(chosen)} ${isOne ? t.tokens.theContainer(nameOf(container)) : t.tokens.allOf[area]}`];
  });
  const more = Object.keys(others).length;
  if (more > 0) parts.push(t.tokens.moreRights(more));
  return parts.length === 0 ? t.tokens.mayNothing : t.tokens.may(parts.join('; '));
}

function listed(words: readonly string[]): string {
  const last = words.at(-1) ?? '';
  return words.length < 2 ? last : `${words.slice(0, -1).join(', ')} ${t.tokens.and} ${last}`;
}
