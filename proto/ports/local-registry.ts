import type { WriteBarrier } from '../gateway/write-barrier.ts';

/** An image registry that has a name outside, through the gateway, and is asked past it here. */
export interface LocalRegistry {
  /** As images name it: `registry.example.com`. */
  readonly host: string;
  /** Where it is asked from here, over plain HTTP: `127.0.0.1:7006`, `troupe-registry:5000`. */
  readonly address: string;
}

/** What a registry's disk takes: `little` is kept for removing images, which writes something; `none` is too little. */
export type RegistryRoom = 'enough' | 'little' | 'none';

/** What the repositories of a user hold, and may hold, in bytes; without `limit`, as much as the disk takes. */
export interface RegistryUsage {
  readonly used: number;
  readonly limit: number | undefined;
}

/** What became of the images of a user: `kept`, where the registry lets nobody delete. */
export type RemovedImages = 'gone' | 'kept';

/** What is known besides of one whose images this process, or the registry front of a cluster, watches over. */
export interface HostedRegistry {
  /** Of the images that run on its machine; undefined where that is not known. */
  readonly architecture: string | undefined;
  /** What its disk takes now. Rejects with an error of the file system. */
  room(): Promise<RegistryRoom>;
  /** What a user has there. Rejects when that cannot be told now. */
  usage(username: string): Promise<RegistryUsage>;
  /** Through which the gateway lets writes in: it is closed while the space of removed images is collected. */
  readonly barrier: WriteBarrier;
  /** Whether to whom a token was given is asked at each write, by that barrier or by one of another process. */
  readonly asksHolders: boolean;
}
