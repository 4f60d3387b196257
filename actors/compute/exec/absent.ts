/**
 * Commands whose clients lost their connection to this process. They go on in their containers, but not for a token
 * that was revoked or lost its right meanwhile. Whether the client is back at another process is not known here: the
 * token is followed for as long as the command would wait.
 */

import { execContainer } from '../../../proto/compute/exec.ts';
import { type Caller, remainingMs } from '../../../proto/endpoint.ts';
import type { AnyRef, Context, Ref } from '../../../supervision/index.ts';
import { dispatch, spawn } from '../../../supervision/index.ts';
import { ActorPart } from '../../service/parts.ts';
import type { ComputeDeps } from '../deps.ts';

/** Most that are followed in a process: more than users have connections. */
const MAX_ABSENT = 10_000;

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

function followTokens(parent: AnyRef, deps: AbsentDeps): Ref<AbsentMessage> {
  /** By name, which no two commands share: what ends the watch over each. */
  const absent = new Map<string, () => void>();
  const forget = ({ name }: AbsentCommand): void => {
    absent.get(name)?.();
    absent.delete(name);
  };
  const follow = (command: AbsentCommand, ctx: Context<AbsentMessage>): void => {
    const { name, caller, containerId, lingerMs } = command;
    forget(command);
    // The holder itself ends it when the token expires.
    const ms = Math.min(lingerMs, remainingMs(caller, deps.clock.now()));
    if (absent.size >= MAX_ABSENT || ms <= 0) return;
    const cancel = ctx.after(ms, { type: 'over', command });
    const unwatch = deps.tokens.watch(caller, scopeOf(caller, containerId), () => {
      dispatch(ctx.self, { type: 'refused', command });
    });
    absent.set(name, () => {
      cancel();
      unwatch();
    });
  };
  const end = ({ containerId, name }: AbsentCommand): void => {
    deps.commands.open(containerId, { name, since: 0, lingerMs: 0, lifeMs: 0 }).then(
      (kept) => kept.cancel(),
      (error: unknown) => deps.log.debug({ containerId, err: error }, 'a command of a revoked token is gone'),
    );
  };
  return spawn<undefined, AbsentMessage>(
    parent,
    (_state, message, ctx) => {
      if (message.type === 'away') follow(message.command, ctx);
      else forget(message.command);
      if (message.type === 'refused') end(message.command);
      return undefined;
    },
    {
      kind: 'compute/absent-commands',
      initialState: undefined,
      afterStop: () => {
        for (const stop of absent.values()) stop();
        absent.clear();
      },
    },
  );
}

function scopeOf(caller: Caller, containerId: string) {
  const { scope } = execContainer;
  return scope === undefined ? undefined : { key: scope.key(caller.userId, { id: containerId }), action: scope.action };
}
