/**
 * The actor of one user's mappings (kind `network/user`, key: user id): it lists and adds them, and counts how often
 * they have resolvers asked. What becomes of each is its own actor's.
 *
 *   asleep -- call --> awake -- idle --> asleep
 */
import { randomBytes } from 'node:crypto';
import { Buckets } from '../../proto/buckets.ts';
import { Refusal } from '../../proto/errors.ts';
import { ID_PATTERN, newId } from '../../proto/ids.ts';
import { createMapping, listMappings, MAX_MAPPINGS, SAYS } from '../../proto/network/endpoints.ts';
import { audit } from '../../storage/audit.ts';
import { insertMapping, mappingsOfUser } from '../../storage/network/mappings.ts';
import { coveringZone } from '../../storage/network/zones.ts';
import { dispatch } from '../../supervision/index.ts';
import { auditEntry } from '../service/audit.ts';
import { handleCall, handler, handlers } from '../service/dispatch.ts';
import { keptReply } from '../service/kept.ts';
import type { AnsweringKind } from '../service/parts.ts';
import { nextCheck } from './check-rules.ts';
import type { NetworkDeps } from './deps.ts';
import { isProvable, normalHostname, zoneNames } from './hostname-rules.ts';
import { NETWORK_USER, type NetworkUserMessage, type WriteRight, writeRight } from './placed.ts';
import { mappingView } from './views.ts';

interface NetworkUserState {
  readonly userId: string;
  readonly right: WriteRight;
}

const SLEEP_AFTER_MS = 60_000;
/** How often all mappings of a user together may have resolvers asked because the user says so. */
const LOOKS = { burst: 30, everyMs: 3000 };

/** The kind, for the service's tree. */
export function userKind(deps: NetworkDeps): AnsweringKind<NetworkUserMessage, NetworkUserState> {
  const { db, clock } = deps;
  const looks = new Buckets(LOOKS, clock);

  const table = handlers<NetworkUserState>(
    handler(listMappings, async ({ userId }: NetworkUserState) => ({
      domains: (await mappingsOfUser(db, userId)).map((row) => mappingView(row, deps)),
    })),
    handler(createMapping, async ({ userId, right }: NetworkUserState, call) => {
      const { domain, target_port: targetPort, container_id: containerId } = call.body;
      const hostname = normalHostname(domain, deps.own);
      if (hostname === undefined) throw new Refusal('invalid_request', { message: SAYS.invalidDomain });
      // What no id can look like names nothing, and some of it could not even be looked for.
      const owner = ID_PATTERN.test(containerId) ? await deps.containerOwner(containerId) : undefined;
      if (owner === undefined) throw new Refusal('not_found', { message: SAYS.noContainer });
      if (owner !== userId) throw new Refusal('forbidden', { message: SAYS.forbidden });
      const zone = deps.integration === undefined ? undefined : await coveringZone(db, userId, zoneNames(hostname));
      if (zone === undefined && !isProvable(hostname))
        throw new Refusal('invalid_request', { message: SAYS.invalidDomain });
      const now = clock.now();
      return right.tx(async (tx) => {
        const inserted = await insertMapping(
          tx,
          {
            id: newId(),
            userId,
            hostname,
            containerId,
            targetPort,
            zone,
            verifyToken: `svc-verify-${randomBytes(24).toString('base64url')}`,
          },
          { now: new Date(now), nextCheckAt: new Date(nextCheck(now, 0, now)), limit: MAX_MAPPINGS },
        );
        if (inserted === 'taken') throw new Refusal('conflict', { message: SAYS.taken });
        if (inserted === 'full')
          throw new Refusal('limit_reached', { message: `you have ${MAX_MAPPINGS} mappings: remove one first` });
        await audit(
          tx,
          auditEntry(call, 'mapping.create', inserted.id, {
            domain: hostname,
            container: containerId,
            port: targetPort,
          }),
        );
        return keptReply(tx, call, mappingView(inserted, deps));
      });
    }),
  );

  return {
    kind: NETWORK_USER.kind,
    answers: table,
    sleepAfterMs: SLEEP_AFTER_MS,
    activate: (userId) => ({ userId, right: writeRight(deps, NETWORK_USER, userId) }),
    handle: async (state, message) => {
      if (message.type === 'call') await handleCall(table, state, message);
      else dispatch(message.replyTo, looks.take(state.userId));
      return state;
    },
  };
}
