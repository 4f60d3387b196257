/** What the networking API is given by the composition root. */
import type { KeyObject } from 'node:crypto';
import type { ComputeNewsSource } from '../../proto/compute/events.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import type { DnsProvider, FindZone, TxtResolvers } from '../../proto/ports/dns.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { ToolServer } from '../../proto/ports/tools.ts';
import type { Db } from '../../storage/db.ts';
import type { Placement } from '../service/placement.ts';
import type { DnsView } from './certificate-deps.ts';
import type { OwnNames } from './hostname-rules.ts';

export interface NetworkDeps {
  readonly db: Db;
  /** Where mappings are awake; undefined in a process that is no member of the cluster, which has its own. */
  readonly placement: Placement | undefined;
  readonly log: Log;
  readonly clock: Clock;
  readonly resolvers: TxtResolvers;
  readonly findZone: FindZone;
  /** The provider, and the key its tokens are sealed with; undefined: mappings work by TXT records alone. */
  readonly integration: Integration | undefined;
  /** By which the records are made up that users prove hostnames with: the platform's, the same on all its nodes. */
  readonly proofKey: KeyObject;
  /** Names that nobody may map. */
  readonly own: OwnNames;
  /** What this platform writes beside the records it makes, so that it knows them again. */
  readonly installation: string;
  /** Who owns a container; undefined when there is none, or it is being deleted. */
  readonly containerOwner: (containerId: string) => Promise<string | undefined>;
  /** DNS, to see whether a hostname leads to this platform. */
  readonly dns: DnsView;
  /** Says when a container goes. */
  readonly computeNews: ComputeNewsSource;
  /** Tools for programs that act for people. */
  readonly tools: ToolServer;
  /** How often mappings are looked for that are due, ms. Default 5,000. */
  readonly lookMs?: number;
}

/** What automation needs. */
export interface Integration {
  readonly provider: DnsProvider;
  readonly sealKey: KeyObject;
}
