/** The networking API: its endpoints, who answers them, and its supervision tree. */
import type { AnyEndpoint } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import {
  createMapping,
  type MappingView,
  mappingEndpoints,
  mappingSchema,
  networkEndpoints,
  ownedDomainEndpoints,
} from '../../proto/network/endpoints.ts';
import type { Service } from '../../proto/service.ts';
import { ActorError, type Entities, entities, type SystemRef } from '../../supervision/index.ts';
import { ASK_TIMEOUT, actorKey, askActor, type CallMessage } from '../service/dispatch.ts';
import { databaseProblem, healthOf, lifeOf } from '../service/health.ts';
import { startServiceSupervisor } from '../service/supervisor.ts';
import type { NetworkDeps } from './deps.ts';
import { type MappingMessage, mappingKind } from './mapping.ts';
import { ownerKind } from './owner.ts';
import { startPoller } from './poller.ts';
import { userKind } from './user.ts';

/** Starts the service under `system`; it ends with it. Rejects when a part of it cannot start. */
export async function startNetwork(system: SystemRef, deps: NetworkDeps): Promise<Service> {
  let owners: Entities<CallMessage> | undefined;
  let users: Entities<CallMessage> | undefined;
  let mappings: Entities<MappingMessage> | undefined;

  const supervisor = await startServiceSupervisor(system, 'network', {
    owners: (parent) => {
      owners = entities(parent, ownerKind(deps));
      return owners.ref;
    },
    users: (parent) => {
      users = entities(parent, userKind(deps));
      return users.ref;
    },
    mappings: (parent) => {
      mappings = entities(parent, mappingKind(deps));
      return mappings.ref;
    },
    poller: (parent) => startPoller(parent, deps, (id, message) => mappings?.tell(id, message)),
  });
  const stopProblem = lifeOf(supervisor);

  /** What a mapping became in its first moments; as it was created, when that takes too long: the poller goes on. */
  const begun = async (created: MappingView): Promise<MappingView> => {
    try {
      return (
        (await mappings?.ask<MappingView>(created.id, (replyTo) => ({ type: 'begin', replyTo }), ASK_TIMEOUT)) ??
        created
      );
    } catch (error) {
      if (!(error instanceof ActorError)) throw error;
      return created;
    }
  };

  return {
    name: 'network',
    // Without the integration no body and no id matters: the answer is one and the same.
    endpoints:
      deps.integration === undefined ? [...ownedDomainEndpoints.map(bare), ...mappingEndpoints] : networkEndpoints,
    call: async (endpoint, call) => {
      if (!owners || !users || !mappings) throw new Refusal('unavailable');
      const key = actorKey(endpoint, call);
      const known = mappings;
      if (endpoint.actor.kind === 'network/mapping')
        return askActor((make) => known.ask(key, make, ASK_TIMEOUT), endpoint, call);
      const those = endpoint.actor.kind === 'network/owner' ? owners : users;
      const reply = await askActor((make) => those.ask(key, make, ASK_TIMEOUT), endpoint, call);
      if (endpoint.name !== createMapping.name || deps.integration === undefined) return reply;
      return begun(mappingSchema.parse(reply));
    },
    connect: async () => {
      throw new Refusal('not_found');
    },
    health: async () => healthOf(stopProblem(), await databaseProblem(deps.db)),
  };
}

function bare({ body: _body, params: _params, ...endpoint }: AnyEndpoint): AnyEndpoint {
  return endpoint;
}
