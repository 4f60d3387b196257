/** What the settings of a workload are, and what the parts that show them are given. */
import type { CallReply, Container } from '../../../../client/index.ts';

/** As its owner sees them. */
export type WorkloadSettings = CallReply<'getSettings'>;

export interface OfWorkload {
  readonly container: Container;
  readonly settings: WorkloadSettings;
  /** Asks for the settings again, once they are others. */
  readonly onChanged: () => void;
}
