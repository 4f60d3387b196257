/** The networking API: its endpoints, who answers them, and its supervision tree. */
import type { AnyEndpoint, Service } from '../../proto/endpoint.ts';
import {
  createMapping,
  type MappingView,
  mappingEndpoints,
  mappingSchema,
  networkEndpoints,
  ownedDomainEndpoints,
} from '../../proto/network/endpoints.ts';
import { useTools } from '../../proto/network/tools.ts';
import { ActorError, type SystemRef } from '../../supervision/index.ts';
import type { PlacedKind } from '../../supervision/placement/index.ts';
import { ASK_TIMEOUT } from '../service/dispatch.ts';
import { type AnsweringKind, type EntitiesPart, localEntities, placedEntities } from '../service/parts.ts';
import { startService } from '../service/start-service.ts';
import type { NetworkDeps } from './deps.ts';
import { mappingKind } from './mapping.ts';
import { ownerKind } from './owner.ts';
import { MAPPING, NETWORK_USER, OWNER } from './placed.ts';
import { dueChecks, orphans } from './poller.ts';
import { toolTransfers } from './tools.ts';
import { userKind } from './user.ts';

/** Starts the service under `system`; it ends with it. Rejects when a part of it cannot start. */
export async function startNetwork(system: SystemRef, deps: NetworkDeps): Promise<Service> {
  const isIntegrated = deps.integration !== undefined;
  const { placement } = deps;
  const entitiesOf = <Msg, State>(placed: PlacedKind<Msg>, kind: AnsweringKind<Msg, State>): EntitiesPart<Msg> =>
    placement === undefined ? localEntities(kind) : placedEntities(placement, placed, kind);
  const users = entitiesOf(NETWORK_USER, userKind(deps));
  const mappings = entitiesOf(MAPPING, mappingKind(deps, users));
  const service = await startService(system, {
    name: 'network',
    // Without the integration no body and no id matters: the answer is one and the same.
    endpoints: isIntegrated ? networkEndpoints : [...ownedDomainEndpoints.map(bare), ...mappingEndpoints, useTools],
    db: deps.db,
    placement,
    parts: {
      owners: entitiesOf(OWNER, ownerKind(deps)),
      users,
      mappings,
      checks: dueChecks(deps, mappings),
      orphans: orphans(deps, mappings),
    },
    transfers: toolTransfers(deps),
  });

  /** What a mapping became in its first moments; as it was created, when that takes too long: the checks go on. */
  const begun = async (created: MappingView): Promise<MappingView> => {
    try {
      return await mappings.ask<MappingView>(created.id, (replyTo) => ({ type: 'begin', replyTo }), ASK_TIMEOUT);
    } catch (error) {
      if (!(error instanceof ActorError)) throw error;
      return created;
    }
  };

  return {
    ...service,
    call: async (endpoint, call) => {
      const reply = await service.call(endpoint, call);
      return endpoint.name === createMapping.name ? begun(mappingSchema.parse(reply)) : reply;
    },
  };
}

function bare({ body: _body, params: _params, ...endpoint }: AnyEndpoint): AnyEndpoint {
  return endpoint;
}
