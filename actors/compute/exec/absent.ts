/**
 * Commands whose clients lost their connection to this process. They go on in their containers, but not for a token
 * that was revoked or lost its right meanwhile. Whether the client is back at another process is not known here: the
 * token is followed for as long as the command would wait. A command whose token cannot be followed, because too many
 * are, is ended at once.
 */

import { KeyedLimit } from '../../../lib/concurrency.ts';
import { execContainer } from '../../../proto/compute/exec.ts';
import { type Caller, remainingMs } from '../../../proto/endpoint.ts';
import type { AnyRef, Context, Ref } from '../../../supervision/index.ts';
import { dispatch, spawn } from '../../../supervision/index.ts';
import { ActorPart } from '../../service/parts.ts';
import type { ComputeDeps } from '../deps.ts';

/** Most that are followed in a process, and of a user in it: more than the containers of one keep. */
const MAX_ABSENT = 10_000;
const MAX_ABSENT_OF_USER = 64;

/** A command in its container. */
export interface AbsentCommand {
  readonly containerId: string;
  /** Under which its container keeps it. */
  readonly name: string;
  readonly caller: Caller;
  /** How long it waits. */
  readonly lingerMs: number;
}

type AbsentMessage =
  | { readonly type: 'away'; readonly command: AbsentCommand }
  | { readonly type: 'back' | 'over' | 'refused'; readonly command: AbsentCommand };

type AbsentDeps = Pick<ComputeDeps, 'commands' | 'tokens' | 'log' | 'clock'>;

/** The part, and the actor that follows the tokens. */
export class AbsentCommands extends ActorPart<AbsentMessage> {
  constructor(deps: AbsentDeps) {
    super('compute/absent-commands', (parent) => followTokens(parent, deps));
  }

  /** The client of a command is gone, and may come back. */
  left(command: AbsentCommand): void {
    dispatch(this.ref, { type: 'away', command });
  }

  /** It came back. */
  joined(command: AbsentCommand): void {
    dispatch(this.ref, { type: 'back', command });
  }
}

/** What ends the watch over each command, by its name, which no two share. */
class Followed {
  readonly #ends = new Map<string, () => void>();
  readonly #room = new KeyedLimit(MAX_ABSENT_OF_USER, MAX_ABSENT);

  /** Begins the watch over a command by `watch`, which gives its end. False when there is no room for it. */
  add({ name, caller }: AbsentCommand, watch: () => () => void): boolean {
    const leave = this.#room.enter(caller.userId);
    if (leave === undefined) return false;
    const end = watch();
    this.#ends.set(name, () => {
      leave();
      end();
    });
    return true;
  }

  /** Ends the watch over a command, if there is one. */
  remove({ name }: AbsentCommand): void {
    this.#ends.get(name)?.();
    this.#ends.delete(name);
  }

  removeAll(): void {
    for (const end of this.#ends.values()) end();
    this.#ends.clear();
  }
}

function followTokens(parent: AnyRef, deps: AbsentDeps): Ref<AbsentMessage> {
  const followed = new Followed();
  const stopping = new AbortController();
  const end = ({ containerId, name }: AbsentCommand): void => {
    deps.commands.open(containerId, { name, since: 0, lingerMs: 0, lifeMs: 0 }, stopping.signal).then(
      (kept) => kept.cancel(),
      (error: unknown) => deps.log.debug({ containerId, err: error }, 'a command that is to end is gone'),
    );
  };
  const follow = (command: AbsentCommand, ctx: Context<AbsentMessage>): void => {
    const { caller, containerId, lingerMs } = command;
    followed.remove(command);
    // The holder itself ends it when the token expires.
    const ms = Math.min(lingerMs, remainingMs(caller, deps.clock.now()));
    if (ms <= 0) return;
    const isFollowed = followed.add(command, () => {
      const cancel = ctx.after(ms, { type: 'over', command });
      const unwatch = deps.tokens.watch(caller, scopeOf(caller, containerId), () => {
        dispatch(ctx.self, { type: 'refused', command });
      });
      return () => {
        cancel();
        unwatch();
      };
    });
    if (isFollowed) return;
    deps.log.warn({ containerId, userId: caller.userId }, 'too many commands without a client: one is ended');
    end(command);
  };
  return spawn<undefined, AbsentMessage>(
    parent,
    (_state, message, ctx) => {
      if (message.type === 'away') follow(message.command, ctx);
      else followed.remove(message.command);
      if (message.type === 'refused') end(message.command);
      return undefined;
    },
    {
      kind: 'compute/absent-commands',
      initialState: undefined,
      afterStop: () => {
        followed.removeAll();
        stopping.abort();
      },
    },
  );
}

function scopeOf(caller: Caller, containerId: string) {
  const { scope } = execContainer;
  return scope === undefined ? undefined : { key: scope.key(caller.userId, { id: containerId }), action: scope.action };
}
