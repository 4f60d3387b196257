/**
 * The actor of one user's mappings (kind `network/user`, key: user id): it lists and adds them, and counts how often
 * they have resolvers asked. What becomes of each is its own actor's.
 *
 *   asleep -- call --> awake -- idle --> asleep
 */
import { Buckets } from '../../proto/buckets.ts';
import type { Call } from '../../proto/endpoint.ts';
import { Refusal, type TxtProof } from '../../proto/errors.ts';
import { shownCache } from '../../proto/gateway/cache-mode.ts';
import { ID_PATTERN, newId } from '../../proto/ids.ts';
import { createMapping, listMappings, MAX_MAPPINGS, type MappingView, SAYS } from '../../proto/network/endpoints.ts';
import { audit } from '../../storage/audit.ts';
import { insertMapping, mappingById, mappingsOfUser, type NewMapping } from '../../storage/network/mappings.ts';
import { coveringZone } from '../../storage/network/zones.ts';
import { dispatch } from '../../supervision/index.ts';
import { auditEntry } from '../service/audit.ts';
import { found, handleCall, handler, handlers, refusalOf } from '../service/dispatch.ts';
import { keptReply } from '../service/kept.ts';
import type { AnsweringKind } from '../service/parts.ts';
import { ownsZone } from './automation.ts';
import { isProven } from './check-rules.ts';
import { type HostnameProof, held, proofOf, proofValue, settle, taken, tellEnded, termsAt } from './claims.ts';
import type { NetworkDeps } from './deps.ts';
import { isProvable, normalHostname, zoneNames } from './hostname-rules.ts';
import { NETWORK_USER, type NetworkUserMessage, type WriteRight, writeRight } from './placed.ts';
import { mappingView } from './views.ts';

interface NetworkUserState {
  readonly userId: string;
  readonly right: WriteRight;
  /** The look for the proof of a held hostname that runs; undefined: none does. */
  displacing: Promise<MappingView> | undefined;
}

/** A message while it is handled. */
interface Turn {
  readonly state: NetworkUserState;
  /** Lets the next message be handled before this one is answered. */
  readonly leave: () => void;
}

const SLEEP_AFTER_MS = 60_000;
/** How often all mappings of a user together may have resolvers asked because the user says so. */
const LOOKS = { burst: 30, everyMs: 3000 };
/** When to ask again for a held hostname while another one of the user is looked at, s. */
const BUSY_S = 5;

/** The kind, for the service's tree. */
export function userKind(deps: NetworkDeps): AnsweringKind<NetworkUserMessage, NetworkUserState> {
  const { db, clock, log, resolvers } = deps;
  const looks = new Buckets(LOOKS, clock);

  /** Adds the mapping; undefined when another user's pending claim holds the hostname. */
  const claim = (right: WriteRight, call: Call, mapping: NewMapping, by?: HostnameProof['by']) =>
    right.tx(async (tx) => {
      const now = clock.now();
      const inserted = await insertMapping(tx, mapping, termsAt(now, by !== undefined), MAX_MAPPINGS);
      if (inserted === 'held') return undefined;
      if (inserted === 'taken') throw taken();
      if (inserted === 'full')
        throw new Refusal('limit_reached', { message: `you have ${MAX_MAPPINGS} mappings: remove one first` });
      const { hostname, containerId, targetPort, cache = 'default' } = mapping;
      const detail = { domain: hostname, container: containerId, port: targetPort, ...shownCache(cache) };
      await audit(tx, auditEntry(call, 'mapping.create', mapping.id, detail));
      await tellEnded(tx, inserted.ended, now);
      // The record in a zone is made by the mapping's own actor, which verifies it then.
      if (by === 'txt') await settle(tx, inserted.row, { by }, now);
      const row = (await mappingById(tx, mapping.id)) ?? inserted.row;
      return keptReply(tx, call, mappingView(row, deps));
    });

  /** Looks for a proof of a hostname that another user's pending claim holds, and with it adds the mapping. */
  const prove = async (right: WriteRight, call: Call, mapping: NewMapping, proof: TxtProof | undefined) => {
    const isInZone = mapping.zone !== undefined && (await ownsZone(deps, mapping));
    const isByRecord = !isInZone && proof !== undefined && isProven(await resolvers.lookup(proof.name), proof.value);
    if (!isInZone && !isByRecord) throw held(proof);
    const claimed = isInZone
      ? await claim(right, call, mapping, 'provider')
      : await claim(right, call, { ...mapping, zone: undefined }, 'txt');
    return found(claimed, () => held(proof));
  };

  /**
   * Adds a mapping whose hostname another user's pending claim holds, if the user proves it. Refuses `conflict`. One at
   * a time, and beside the mailbox: name servers that never answer must not keep the user from everything else.
   */
  const displace = async ({ state, leave }: Turn, call: Call, mapping: NewMapping): Promise<MappingView> => {
    const { hostname } = mapping;
    const proof = isProvable(hostname) ? proofOf(mapping) : undefined;
    if (state.displacing !== undefined) throw held(proof, BUSY_S);
    const wait = looks.take(state.userId);
    if (wait > 0) throw held(proof, Math.ceil(wait / 1000));
    state.displacing = prove(state.right, call, mapping, proof);
    leave();
    try {
      return await state.displacing;
    } catch (error) {
      // Its turn is over: neither the supervisor nor the placement of entities sees what it throws.
      const refused = refusalOf(error);
      if (refused.code === 'internal') log.error({ err: error, hostname }, 'a held hostname could not be claimed');
      throw refused;
    } finally {
      state.displacing = undefined;
    }
  };

  const table = handlers<Turn>(
    handler(listMappings, async ({ state }: Turn) => ({
      domains: (await mappingsOfUser(db, state.userId)).map((row) => mappingView(row, deps)),
    })),
    handler(createMapping, async (turn: Turn, call) => {
      const { userId, right } = turn.state;
      const { domain, target_port: targetPort, container_id: containerId, cache } = call.body;
      const hostname = normalHostname(domain, deps.own);
      if (hostname === undefined) throw new Refusal('invalid_request', { message: SAYS.invalidDomain });
      // What no id can look like names nothing, and some of it could not even be looked for.
      const owner = ID_PATTERN.test(containerId) ? await deps.containerOwner(containerId) : undefined;
      if (owner === undefined) throw new Refusal('not_found', { message: SAYS.noContainer });
      if (owner !== userId) throw new Refusal('forbidden', { message: SAYS.forbidden });
      const zone = deps.integration === undefined ? undefined : await coveringZone(db, userId, zoneNames(hostname));
      if (zone === undefined && !isProvable(hostname))
        throw new Refusal('invalid_request', { message: SAYS.invalidDomain });
      const mapping: NewMapping = {
        id: newId(),
        userId,
        hostname,
        containerId,
        targetPort,
        cache,
        zone,
        verifyToken: proofValue(deps.proofKey, userId, hostname),
      };
      return (await claim(right, call, mapping)) ?? (await displace(turn, call, mapping));
    }),
  );

  return {
    kind: NETWORK_USER.kind,
    answers: table,
    sleepAfterMs: SLEEP_AFTER_MS,
    activate: (userId) => ({ userId, right: writeRight(deps, NETWORK_USER, userId), displacing: undefined }),
    // The next activation, perhaps on another node, begins when it has ended.
    onSleep: async ({ displacing }) => {
      await Promise.allSettled([displacing]);
    },
    handle: async (state, message) => {
      if (message.type === 'may-look') dispatch(message.replyTo, looks.take(state.userId));
      else
        await new Promise<void>((leave, fail) => {
          Promise.resolve(handleCall(table, { state, leave }, message)).then(leave, fail);
        });
      return state;
    },
  };
}
