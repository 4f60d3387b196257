import { createHash, randomBytes } from 'node:crypto';
import { EngineError } from '../../../proto/ports/engine.ts';
import { PLATFORM_FOLDER } from '../../../proto/ports/files.ts';

/** A volume is mounted there in every container, for reading only. It holds the platform's keys (keys.ts). */
export const KEYS_FOLDER = PLATFORM_FOLDER;

/** No health checks, whatever the image asks for: they run outside the container's share of the processors. */
export const noHealthcheck = { Test: ['NONE'] } as const;

/**
 * The labels by which containers, volumes and networks are known as ours. An image may have labels of the same names,
 * which Docker copies to its containers: so what the platform makes has all of them set, and a container is never known
 * by them alone (`containerOf`).
 */
export const labels = {
  installation: 'troupe.installation',
  container: 'troupe.container',
  user: 'troupe.user',
  /** On private networks: the name that their owner gave them. */
  network: 'troupe.network',
  /** On volumes: the path it is mounted at. */
  path: 'troupe.path',
  /** On containers that only lend a hand, and never run. */
  helper: 'troupe.helper',
  /** On containers made from a copy of their own files (carry-over.ts): their first image, and its id. */
  image: 'troupe.image',
  imageId: 'troupe.image-id',
  /** On the same: what that copy adds to the image, in bytes. */
  carried: 'troupe.carried-bytes',
  /** On what was made to take a container's files: that one's Docker id; on containers, when it ran last, too. */
  filledFrom: 'troupe.filled-from',
} as const;

/** What Docker tells of a container, in lists and in descriptions. */
export interface FoundContainer {
  readonly labels: Readonly<Record<string, string>> | null;
  /** As Docker writes them, `/name`. */
  readonly names: readonly string[];
  readonly mounts?: readonly { readonly Name?: string | undefined }[] | undefined;
}

/** Names and label filters of one installation. `installation` keeps two platforms on one Docker apart. */
export type Naming = ReturnType<typeof namingOf>;

/** Throws EngineError `refused` when `installation` is not 1 to 32 of `[a-z0-9-]`, first and last not `-`. */
export function namingOf(installation: string) {
  if (!/^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$/.test(installation)) {
    throw new EngineError('refused', `"${installation}" cannot name an installation.`);
  }
  const prefix = `troupe-${installation}`;
  // No id has a dot.
  const helperPrefix = `${prefix}.helper.`;
  const networkPrefix = `${prefix}.network.`;
  const beside = (name: string, id: string) => `${prefix}-${checkedId(id)}.${name}`;
  /** One volume for each mount path: the same path finds the same volume again. */
  const volume = (id: string, path: string): string =>
    `${prefix}-${checkedId(id)}-${createHash('sha256').update(path).digest('hex').slice(0, 12)}`;
  /** The platform's id from the labels of a volume or a network, when they are of this installation. */
  const idOf = (found: FoundContainer['labels'] | undefined): string | undefined =>
    found?.[labels.installation] === installation ? found[labels.container] : undefined;
  const ownLabels = (own: Readonly<Record<string, string>>): Record<string, string> => ({
    ...Object.fromEntries(Object.values(labels).map((label) => [label, ''])),
    [labels.installation]: installation,
    ...own,
  });
  return {
    installation,
    volume,
    idOf,
    container: (id: string) => `${prefix}-${checkedId(id)}`,
    /** One that is to take a container's place, and one whose place was taken (successors.ts). */
    successor: (id: string) => beside('successor', id),
    predecessor: (id: string) => beside('predecessor', id),
    /** One in which a command runs once (once.ts). */
    once: (id: string) => beside('once', id),
    /** Each container has a network of its own. */
    network: (id: string) => `${prefix}-${checkedId(id)}`,
    /** A private network of a user. */
    privateNetwork: (owner: string, name: string) => `${networkPrefix}${checkedId(owner)}.${checkedId(name)}`,
    /** Whose private network it is, and its name; undefined when it is none of this installation. */
    privateNetworkOf: (dockerName: string) => {
      if (!dockerName.startsWith(networkPrefix)) return undefined;
      const [owner = '', name = '', ...more] = dockerName.slice(networkPrefix.length).split('.');
      return isId(owner) && isId(name) && more.length === 0 ? { owner, name } : undefined;
    },
    /** All labels of a container, those that say nothing among them. */
    containerLabels: (id: string, userId: string) => ownLabels({ [labels.container]: id, [labels.user]: userId }),
    /** Name and labels of a container that only lends a hand; `purpose` is an id of a container, or another word. */
    helper: (purpose: string) => ({
      name: `${helperPrefix}${randomBytes(8).toString('hex')}`,
      labels: ownLabels({ [labels.helper]: purpose }),
    }),
    /**
     * The platform's id of a container that the platform made: labels and name agree, and it is no helper. One that was
     * renamed is known by its volume of keys, which no image can ask for. Successors and predecessors are not it.
     */
    containerOf: ({ labels: found, names, mounts = [] }: FoundContainer): string | undefined => {
      const id = idOf(found);
      if (id === undefined || !isId(id) || found?.[labels.helper]) return undefined;
      if (names.some((name) => name.startsWith(`/${prefix}-${id}.`))) return undefined;
      const isOurs = names.includes(`/${prefix}-${id}`) || mounts.some(({ Name }) => Name === volume(id, KEYS_FOLDER));
      return isOurs ? id : undefined;
    },
    /** The platform's id of the container that this one is the successor or the predecessor of. */
    besideOf: ({ labels: found, names }: FoundContainer): string | undefined => {
      const id = idOf(found);
      if (id === undefined || !isId(id)) return undefined;
      const isBeside = ['successor', 'predecessor'].some((name) => names.includes(`/${beside(name, id)}`));
      return isBeside ? id : undefined;
    },
    /** Whether it is a helper that the platform made. */
    isHelper: ({ labels: found, names, mounts = [] }: FoundContainer): boolean =>
      found?.[labels.installation] === installation &&
      Boolean(found[labels.helper]) &&
      (names.some((name) => name.startsWith(`/${helperPrefix}`)) ||
        // Made by a version that gave them no name.
        mounts.some(({ Name = '' }) => Name.startsWith(`${prefix}-`))),
    /** Docker's `filters` parameter for what is ours, or what is ours of one container. */
    filters: (id?: string) =>
      JSON.stringify({
        label: [
          `${labels.installation}=${installation}`,
          ...(id === undefined ? [] : [`${labels.container}=${checkedId(id)}`]),
        ],
      }),
  };
}

/** Ids go into names, paths and filters: anything but a plain word is refused. */
function checkedId(id: string): string {
  if (!isId(id)) throw new EngineError('refused', 'This is not a container id.');
  return id;
}

function isId(text: string): boolean {
  return /^[a-z0-9][a-z0-9-]{0,62}$/.test(text);
}
