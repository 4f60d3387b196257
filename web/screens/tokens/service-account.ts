import type { CallReply } from '../../../client/index.ts';

/** A service account, as lists have it. */
export type ServiceAccountLine = CallReply<'listServiceAccounts'>[number];
