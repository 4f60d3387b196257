/** What entities of the networking API are told from other nodes, and by what right they write. */

import { z } from 'zod';
import {
  changeMapping,
  createMapping,
  deleteMapping as deleteEndpoint,
  listMappings,
  type MappingView,
  mappingSchema,
  ownedDomainEndpoints,
  verifyMapping as verifyEndpoint,
} from '../../proto/network/endpoints.ts';
import type { Db } from '../../storage/db.ts';
import { fenced } from '../../storage/fenced.ts';
import type { Ref } from '../../supervision/index.ts';
import { field, jsonCodec, type PlacedKind } from '../../supervision/placement/index.ts';
import { callCodec } from '../service/codecs.ts';
import type { CallMessage } from '../service/dispatch.ts';
import { mustHold, type Placement } from '../service/placement.ts';

/** The service whose nodes hold them. */
export const SERVICE = 'network';

/** What the actor of a mapping is told. */
export type MappingMessage =
  | CallMessage
  /** Just created: make its record, if a connected zone covers it, find its zone, and say what it is now. */
  | { readonly type: 'begin'; readonly replyTo: Ref<MappingView> }
  /** A check is due. */
  | { readonly type: 'check' }
  /** Its container is gone. */
  | { readonly type: 'orphaned' };

/** The role of nodes that order certificates: those of the networking API that know a certificate authority. */
export const ORDERS = 'certificates';

/** Each node tells its own: what is due in its shards. */
export const CERTIFICATE: PlacedKind<'look'> = {
  kind: 'network/certificate',
  service: ORDERS,
  codec: jsonCodec(() => 'look'),
};

/** What the actor of a user is told. */
export type NetworkUserMessage =
  | CallMessage
  /** A mapping of the user would ask resolvers: how long it has to wait for that, ms; 0: it may, and is counted. */
  | { readonly type: 'may-look'; readonly replyTo: Ref<number> };

const userCalls = callCodec([listMappings, createMapping]);
const waitCodec = jsonCodec((value) => z.number().parse(value));

export const NETWORK_USER: PlacedKind<NetworkUserMessage> = {
  kind: 'network/user',
  service: SERVICE,
  codec: {
    encode: (message, refs) =>
      message.type === 'call'
        ? userCalls.encode(message, refs)
        : { type: message.type, replyTo: refs.out(message.replyTo, waitCodec) },
    decode(wire, refs): NetworkUserMessage {
      const type = field(wire, 'type');
      if (type !== 'may-look') return userCalls.decode(wire, refs);
      return { type, replyTo: refs.in(field(wire, 'replyTo'), waitCodec) };
    },
  },
};

export const OWNER: PlacedKind<CallMessage> = {
  kind: 'network/owner',
  service: SERVICE,
  codec: callCodec(ownedDomainEndpoints),
};

const mappingCalls = callCodec([changeMapping, deleteEndpoint, verifyEndpoint]);
const viewCodec = jsonCodec<MappingView>((value) => mappingSchema.parse(value));

export const MAPPING: PlacedKind<MappingMessage> = {
  kind: 'network/mapping',
  service: SERVICE,
  codec: {
    encode(message, refs) {
      switch (message.type) {
        case 'call':
          return mappingCalls.encode(message, refs);
        case 'begin':
          return { type: 'begin', replyTo: refs.out(message.replyTo, viewCodec) };
        default:
          return { type: message.type };
      }
    },
    decode(wire, refs): MappingMessage {
      const type = field(wire, 'type');
      switch (type) {
        case 'begin':
          return { type, replyTo: refs.in(field(wire, 'replyTo'), viewCodec) };
        case 'check':
        case 'orphaned':
          return { type };
        default:
          return mappingCalls.decode(wire, refs);
      }
    },
  },
};

/** By what right an entity writes: `tx` commits only while the entity is here, and rejects as `fenced`. */
export interface WriteRight extends Pick<Db, 'tx'> {
  /** Throws PlacementError `fenced` once it may be elsewhere: asked before each change that no transaction guards. */
  check(): void;
}

/**
 * The right of an entity that wakes now, before it reads its state: its lease. In a process that is no member of the
 * cluster there is none, and rows alone decide between that process and others.
 */
export function writeRight(
  { db, placement }: { readonly db: Db; readonly placement: Placement | undefined },
  kind: Pick<PlacedKind<never>, 'service' | 'kind'>,
  id: string,
): WriteRight {
  if (placement === undefined) return { tx: (work) => db.tx(work), check() {} };
  const lease = placement.lease(kind, id);
  return { tx: (work) => fenced(db, lease, work), check: () => mustHold(placement, kind, id, lease) };
}
