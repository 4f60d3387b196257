/** The shells of all users: who may come back to which, and how many there are. */
import { createHash } from 'node:crypto';
import { MAX_TERMINAL_SESSIONS, terminal } from '../../../proto/compute/endpoints.ts';
import type { Caller } from '../../../proto/endpoint.ts';
import { Refusal } from '../../../proto/errors.ts';
import type { Ref } from '../../../supervision/index.ts';
import type { ConnectionMessage } from '../../service/connection.ts';
import { ActorPart } from '../../service/parts.ts';
import { connectionSupervisor } from '../../service/supervisor.ts';
import type { ComputeDeps } from '../deps.ts';
import { TerminalSession, type Viewer } from './session.ts';

/** What a client asked for. */
export interface TerminalRequest {
  readonly caller: Caller;
  readonly containerId: string;
  /** Chosen by the client; without one nobody can come back. */
  readonly session: string | undefined;
  /** Its text frames are lines, without their ends. */
  readonly lines: boolean;
  /** It is told how the shell ended. */
  readonly tellsExit: boolean;
}

/** The registry, and the parent of the actors in it. */
export class Terminals extends ActorPart<never> {
  readonly #deps: ComputeDeps;
  readonly #attach: (containerId: string, terminal: Ref<ConnectionMessage>) => void;
  /** Those with an id, by user and then by all that they are bound to. */
  readonly #named = new Map<string, Map<string, TerminalSession>>();

  constructor(deps: ComputeDeps, attach: (containerId: string, terminal: Ref<ConnectionMessage>) => void) {
    super('compute/terminals', (parent) => {
      this.#named.clear();
      return connectionSupervisor(parent, 'compute', 'terminals');
    });
    this.#deps = deps;
    this.#attach = attach;
  }

  /** Throws Refusal `limit_reached` when the client asks for one session more than its user may have. */
  admit(request: TerminalRequest): void {
    const mine = this.#named.get(request.caller.userId);
    if (request.session === undefined || mine === undefined || mine.has(keyOf(request))) return;
    if (mine.size < MAX_TERMINAL_SESSIONS || longestAway(mine) !== undefined) return;
    throw new Refusal('limit_reached', {
      message: `You have ${MAX_TERMINAL_SESSIONS} terminals with a session id open: close one first.`,
    });
  }

  /** The session for a client: the one it comes back to, or a new one. Throws as `admit` does, and ActorError. */
  join(request: TerminalRequest, viewer: Viewer): TerminalSession {
    const { caller, containerId, session } = request;
    const key = keyOf(request);
    const known = session === undefined ? undefined : this.#named.get(caller.userId)?.get(key);
    if (known !== undefined) {
      known.join(viewer);
      return known;
    }
    this.admit(request);
    const made: TerminalSession = new TerminalSession(this.#deps, {
      containerId,
      keptAs: session === undefined ? undefined : nameOf(caller.userId, key),
      attach: (self) => this.#attach(containerId, self),
      watchToken: (owner, onEnd) => this.#deps.tokens.watch(owner, scopeOf(owner, containerId), onEnd),
      onOver: () => this.#forget(caller.userId, key, made),
    });
    if (session !== undefined) this.#keep(caller.userId, key, made);
    try {
      made.start(this.ref, viewer);
    } catch (error) {
      this.#forget(caller.userId, key, made);
      throw error;
    }
    return made;
  }

  #keep(userId: string, key: string, session: TerminalSession): void {
    const mine = this.#named.get(userId) ?? new Map<string, TerminalSession>();
    this.#named.set(userId, mine);
    // Who has been away longest makes place.
    if (mine.size >= MAX_TERMINAL_SESSIONS) {
      const [oldKey, old] = longestAway(mine) ?? [];
      if (oldKey !== undefined) mine.delete(oldKey);
      old?.end();
    }
    mine.set(key, session);
  }

  #forget(userId: string, key: string, session: TerminalSession): void {
    const mine = this.#named.get(userId);
    if (mine?.get(key) !== session) return;
    mine.delete(key);
    if (mine.size === 0) this.#named.delete(userId);
  }
}

/** All that a session is bound to. A login and an API token never share one, nor do two service accounts. */
function keyOf({ caller, containerId, session }: TerminalRequest): string {
  return [containerId, caller.kind, caller.serviceAccount?.id ?? '', session].join(' ');
}

/** What the shell is kept as in its container: the same at every node, and impossible to guess. */
function nameOf(userId: string, key: string): string {
  return createHash('sha256').update(`${userId} ${key}`).digest('hex').slice(0, 40);
}

function scopeOf(caller: Caller, containerId: string) {
  const { scope } = terminal;
  return scope === undefined ? undefined : { key: scope.key(caller.userId, { id: containerId }), action: scope.action };
}

function longestAway(sessions: ReadonlyMap<string, TerminalSession>): [string, TerminalSession] | undefined {
  let found: [string, TerminalSession] | undefined;
  for (const entry of sessions) {
    const since = entry[1].leftAt;
    if (since !== undefined && since < (found?.[1].leftAt ?? Number.POSITIVE_INFINITY)) found = entry;
  }
  return found;
}
