import type { ShardLease } from '../../proto/ports/placement.ts';
import type { Ref } from '../../supervision/index.ts';
import type { ConnectionMessage } from '../service/connection.ts';

/** What the actor of a user keeps. */
export class ComputeUserState {
  /** What it may write by. */
  readonly lease: ShardLease;
  readonly userId: string;
  readonly connections = new Set<Ref<ConnectionMessage>>();
  /** Those among them that asked for version 2. */
  readonly followers = new Set<Ref<ConnectionMessage>>();
  /** Containers that run, as far as followers were told. */
  readonly running = new Set<string>();
  /** What followers were told last of what these use. */
  usageTold = '';
  /** Cancels the timer of the next such news. */
  usageTimer: (() => void) | undefined = undefined;

  constructor(lease: ShardLease, userId: string) {
    this.lease = lease;
    this.userId = userId;
  }
}
