/**
 * The actor of one user's owned domains (kind `network/owner`, key: user id): it asks the DNS provider, so that a slow
 * one holds up nobody else.
 *
 *   asleep -- call --> awake -- idle --> asleep
 */
import { Refusal } from '../../proto/errors.ts';
import { newId } from '../../proto/ids.ts';
import {
  connectDomain,
  disconnectDomain,
  listOwnedDomains,
  MAX_OWNED_DOMAINS,
  refreshDomain,
  SAYS,
} from '../../proto/network/endpoints.ts';
import { type DnsProvider, ProviderError, type ProviderZone } from '../../proto/ports/dns.ts';
import { audit } from '../../storage/audit.ts';
import {
  deleteOwned,
  insertOwned,
  type OwnedRow,
  ownedDomain,
  ownedDomains,
  replaceZones,
} from '../../storage/network/zones.ts';
import { auditEntry } from '../service/audit.ts';
import { type CallMessage, found, handleCall, handler, handlers } from '../service/dispatch.ts';
import { keptReply } from '../service/kept.ts';
import type { AnsweringKind } from '../service/parts.ts';
import type { NetworkDeps } from './deps.ts';
import { OWNER, type WriteRight, writeRight } from './placed.ts';
import { openToken, sealToken } from './tokens.ts';
import { ownedView } from './views.ts';

interface OwnerState {
  readonly userId: string;
  readonly right: WriteRight;
}

const SLEEP_AFTER_MS = 60_000;

/** The kind, for the service's tree. */
export function ownerKind(deps: NetworkDeps): AnsweringKind<CallMessage, OwnerState> {
  const { db, clock, integration, log } = deps;

  const configured = () => {
    if (integration === undefined) throw new Refusal('not_configured', { message: SAYS.notConfigured });
    return integration;
  };

  /**
   * Reads the zones of a stored token again. Refuses `conflict` when it does not open, `bad_gateway` when the provider
   * does not give them.
   */
  const refreshed = async ({ right }: OwnerState, row: OwnedRow): Promise<readonly string[]> => {
    const { provider, sealKey } = configured();
    const token = openToken(sealKey, row.id, row.token);
    if (token === undefined)
      throw new Refusal('conflict', { message: 'the stored token cannot be decrypted: disconnect and reconnect' });
    let zones: readonly ProviderZone[];
    try {
      zones = await provider.zones(token);
    } catch (error) {
      throw badGateway(error);
    }
    if (zones.length === 0)
      throw new Refusal('bad_gateway', { message: 'the token sees no zone at the DNS provider any more' });
    await right.tx((tx) => replaceZones(tx, row.id, rowsOf(zones), new Date(clock.now())));
    return namesOf(zones);
  };

  /**
   * What an older version left has no zones yet: they are read when first listed, and left for the next time if that
   * fails.
   */
  const backFilled = async (state: OwnerState, row: OwnedRow): Promise<OwnedRow> => {
    if (row.zonesAt !== null) return row;
    try {
      return { ...row, zones: [...(await refreshed(state, row))] };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      log.warn({ ownedDomainId: row.id, reason: error.message }, 'the zones of a token could not be read');
      return row;
    }
  };

  const table = handlers<OwnerState>(
    handler(listOwnedDomains, async (state: OwnerState) => {
      configured();
      const rows = await Promise.all((await ownedDomains(db, state.userId)).map((row) => backFilled(state, row)));
      return { connections: rows.map(ownedView) };
    }),
    handler(connectDomain, async ({ userId, right }: OwnerState, call) => {
      const { provider, sealKey } = configured();
      const { token } = call.body;
      const zones = await zonesOf(provider, token);
      const known = (await ownedDomains(db, userId)).find((row) => openToken(sealKey, row.id, row.token) === token);
      if (known !== undefined)
        return right.tx(async (tx) => {
          found((await replaceZones(tx, known.id, rowsOf(zones), new Date(clock.now()))) || undefined);
          return keptReply(tx, call, { id: known.id, zones: namesOf(zones) });
        });
      const id = newId();
      const sealed = sealToken(sealKey, id, token);
      return right.tx(async (tx) => {
        const owned = { id, userId, token: sealed, zones: rowsOf(zones) };
        if (!(await insertOwned(tx, owned, new Date(clock.now()), MAX_OWNED_DOMAINS)))
          throw new Refusal('limit_reached', {
            message: `you have ${MAX_OWNED_DOMAINS} connections: remove one first`,
          });
        await audit(tx, auditEntry(call, 'domain.connect', id, { zones: namesOf(zones).slice(0, 20) }));
        return keptReply(tx, call, { id, zones: namesOf(zones) });
      });
    }),
    handler(refreshDomain, async (state: OwnerState, call) => {
      configured();
      const row = found(await ownedDomain(db, state.userId, call.params.id));
      return { id: row.id, zones: [...(await refreshed(state, row))] };
    }),
    handler(disconnectDomain, async ({ userId, right }: OwnerState, call) => {
      configured();
      const { id } = call.params;
      await right.tx(async (tx) => {
        const zones = found(await deleteOwned(tx, userId, id));
        await audit(tx, auditEntry(call, 'domain.disconnect', id, { zones: zones.slice(0, 20) }));
      });
      return undefined;
    }),
  );

  return {
    kind: OWNER.kind,
    answers: table,
    sleepAfterMs: SLEEP_AFTER_MS,
    activate: (userId) => ({ userId, right: writeRight(deps, OWNER, userId) }),
    handle: async (state, message) => {
      await handleCall(table, state, message);
      return state;
    },
  };
}

/** The zones of a token that is new here. Refuses `invalid_request` for one that is no good, and `bad_gateway`. */
async function zonesOf(provider: Pick<DnsProvider, 'zones'>, token: string): Promise<readonly ProviderZone[]> {
  let zones: readonly ProviderZone[];
  try {
    zones = await provider.zones(token);
  } catch (error) {
    if (error instanceof ProviderError && error.code === 'unavailable') throw badGateway(error);
    throw new Refusal('invalid_request', { message: SAYS.badToken, cause: error });
  }
  if (zones.length === 0) throw new Refusal('invalid_request', { message: SAYS.badToken });
  return zones;
}

function rowsOf(zones: readonly ProviderZone[]) {
  return zones.map(({ id, name }) => ({ zoneId: id, name }));
}

function namesOf(zones: readonly ProviderZone[]): string[] {
  return [...new Set(zones.map(({ name }) => name))].sort();
}

/** The provider does not do as it should: 502, and when to come back if it said so. */
function badGateway(error: unknown): Refusal {
  if (!(error instanceof ProviderError)) return new Refusal('internal', { cause: error });
  const { retryAfter } = error;
  return new Refusal('bad_gateway', {
    message: error.message,
    cause: error,
    ...(retryAfter === undefined ? {} : { retryAfter }),
  });
}
