/** What the form of a new container holds. */
import type { CallInput } from '../../../client/index.ts';
import { type EgressChoice, egressOf } from '../../core/egress.ts';
import type { ContainerSize } from '../../core/sizes.ts';

/** As it is typed. */
export interface CreateDraft {
  readonly name: string;
  /** Empty: the platform's own. */
  readonly image: string;
  readonly size: ContainerSize['type'];
  readonly memoryMb: number;
  readonly storageGb: number;
  readonly keyIds: readonly number[];
  /** A public key that is not of the account yet. */
  readonly pasted: string;
  readonly ssh: boolean;
  /** One path a line. */
  readonly mounts: string;
  /** Empty: it is reached by its id alone. */
  readonly addressName: string;
  readonly pull: 'Always' | 'IfNotPresent';
  /** What it may reach, and the networks of a list. */
  readonly egress: EgressChoice;
  readonly networks: string;
}

export const MEMORIES = [128, 256, 512, 1024, 2048, 4096, 8192] as const;
export const STORAGES = [1, 5, 10, 20, 50, 100] as const;

export function newDraft(): CreateDraft {
  return {
    name: '',
    image: '',
    size: 'nano',
    memoryMb: 512,
    storageGb: 5,
    keyIds: [],
    pasted: '',
    ssh: true,
    mounts: '/root',
    addressName: '',
    pull: 'IfNotPresent',
    egress: 'any',
    networks: '',
  };
}

/** As it is sent. */
export function bodyOf(draft: CreateDraft, keyIds: readonly number[]): CallInput<'createContainer'>['body'] {
  const { name, image, size, memoryMb, storageGb, ssh, mounts, addressName, pull, egress, networks } = draft;
  return {
    name: name.trim(),
    instance_type: size,
    memory_mb: memoryMb,
    storage_gb: storageGb,
    ssh_key_ids: [...keyIds],
    ssh_enabled: ssh,
    ...(mounts.trim() === '' ? { stateless: true } : { mount_paths: pathsIn(mounts) }),
    pull_policy: pull,
    ...(addressName.trim() === '' ? {} : { address_name: addressName.trim() }),
    ...(egress === 'any' ? {} : { egress: egressOf(egress, networks) }),
    ...(image.trim() === '' ? {} : { image: image.trim() }),
  };
}

/** The paths of a text, one a line. */
export function pathsIn(text: string): string[] {
  return text.split(/\s+/).filter((path) => path !== '');
}
