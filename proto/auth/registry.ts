/** The token endpoint of the image registry (the registry token protocol of CNCF Distribution). */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';

/** What can be asked for on a repository, in the order of a token's lists. */
export const REPOSITORY_ACTIONS = ['pull', 'push', 'delete'] as const;
export type RepositoryAction = (typeof REPOSITORY_ACTIONS)[number];

/** One entry of a registry token's `access` claim. */
export interface RepositoryAccess {
  readonly type: 'repository';
  readonly name: string;
  readonly actions: readonly RepositoryAction[];
}

/** The entry that lets its holder list all repositories. Only the platform itself has it. */
export interface CatalogAccess {
  readonly type: 'registry';
  readonly name: 'catalog';
  readonly actions: readonly ['*'];
}

/** Docker and skopeo send the scope once for each repository; each value may hold several, separated by spaces. */
export const registryToken = endpoint('registryToken', 'GET /v2/token', {
  service: 'auth',
  summary: 'A token for the image registry, for whoever HTTP Basic names, or for anybody',
  access: 'none',
  basic: true,
  repeats: ['scope'],
  query: z.object({ service: z.string().min(1).max(256), scope: z.string().max(16_384).default('') }),
  reply: z.object({
    token: z.string(),
    expires_in: z.literal(300),
    issued_at: z.string(),
  }),
  refuses: ['invalid_credentials', 'forbidden', 'too_many_attempts', 'no_space'],
  actor: { kind: 'auth/login', key: 'none' },
});

/** For programs that hold a token of the platform, and no password. */
export const ownRegistryToken = endpoint('ownRegistryToken', 'GET /api/registry/token', {
  service: 'auth',
  summary: "A token for the platform's image registry, for whoever calls: what of the scope they may do",
  access: 'token',
  query: z.object({ scope: z.string().max(16_384) }),
  reply: z.object({
    token: z.string(),
    expires_in: z.literal(300),
    /** What the token lets its holder do. */
    access: z.array(z.object({ repository: z.string(), actions: z.array(z.enum(REPOSITORY_ACTIONS)) })),
  }),
  refuses: ['not_found', 'no_space'],
  actor: { kind: 'auth/login', key: 'none' },
});

export const registryUsage = endpoint('registryUsage', 'GET /api/registry/usage', {
  service: 'auth',
  summary: "What the caller's images hold in the platform's own registry, and may hold",
  access: 'token',
  scope: { key: (uid) => `storage.${uid}`, action: 'read' },
  reply: z.object({
    /** All that the repositories of the user hold, each part of an image once. */
    used_bytes: z.int(),
    /** Null: as much as the disk takes. */
    limit_bytes: z.int().nullable(),
  }),
  refuses: ['not_found'],
  actor: { kind: 'auth/login', key: 'none' },
});

/** All endpoints of this file. */
export const registryEndpoints = [registryToken, ownRegistryToken, registryUsage] as const;
