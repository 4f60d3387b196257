import type { ShardLease } from '../../proto/ports/placement.ts';
import type { Ref } from '../../supervision/index.ts';
import type { ConnectionMessage } from '../service/connection.ts';

/** What the actor of a user keeps. */
export interface ComputeUserState {
  /** What it may write by. */
  readonly lease: ShardLease;
  readonly userId: string;
  readonly connections: Set<Ref<ConnectionMessage>>;
}
