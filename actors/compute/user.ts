/**
 * The actor of one user of the compute service (kind `compute/user`, key: user id). It serialises what counts against
 * the user's limits, and pushes news of the user's containers to the user's connections, encoded once.
 *
 *   asleep -- call or connection --> awake -- no connection and idle --> asleep
 */
import { type ComputeEvent, listContainers } from '../../proto/compute/endpoints.ts';
import { containersOfUser } from '../../storage/compute/containers.ts';
import { dispatch, type EntityContext, type Ref } from '../../supervision/index.ts';
import type { ConnectionMessage } from '../service/connection.ts';
import { handleCall, handler, handlers, refusalOf } from '../service/dispatch.ts';
import type { AnsweringKind } from '../service/parts.ts';
import { namesHandler } from './address-names.ts';
import type { ComputeDeps } from './deps.ts';
import { listingHandler } from './listing.ts';
import { COMPUTE_USER, type UserMail } from './placed.ts';
import { type SocketLimits, tooMany } from './socket-limits.ts';
import { creationHandler } from './user-creation.ts';
import { imagesHandler } from './user-images.ts';
import { sshKeyHandlers } from './user-ssh-keys.ts';
import { ComputeUserState } from './user-state.ts';
import { NOT_AVAILABLE, pushChanged, pushGone, pushStatus, pushUsage, USAGE_EVERY_MS } from './user-views.ts';
import { containerView } from './views.ts';

/** What the actor understands. */
type ComputeUserMessage =
  | UserMail
  /** A connection is gone. */
  | { readonly type: 'detached'; readonly connection: Ref<ConnectionMessage> }
  /** It is time to say what containers use. */
  | { readonly type: 'usage' };

const SLEEP_AFTER_MS = 60_000;

/** The kind, for the service's tree. `reconcile` wakes a container's actor. */
export function userKind(
  deps: ComputeDeps,
  reconcile: (containerId: string) => void,
  limits: Pick<SocketLimits, 'most'>,
): AnsweringKind<ComputeUserMessage, ComputeUserState> {
  const { db } = deps;

  const list = async (userId: string) => (await containersOfUser(db, userId)).map((row) => containerView(row, deps));

  const table = handlers<ComputeUserState>(
    handler(listContainers, async (state: ComputeUserState) => ({ containers: await list(state.userId) })),
    creationHandler(deps, reconcile),
    ...sshKeyHandlers(deps, reconcile),
    imagesHandler(deps),
    namesHandler(deps),
    // Nodes of the version before ask the user's actor.
    listingHandler(deps),
  );

  async function attach(
    state: ComputeUserState,
    ctx: EntityContext<ComputeUserMessage>,
    { connection, version }: Extract<UserMail, { type: 'attach' }>,
  ): Promise<void> {
    dispatch(connection, { type: 'attached', by: ctx.self });
    if (state.connections.has(connection)) return;
    // Those at all nodes: each counts its own before.
    const most = state.connections.size === 0 ? 1 : await limits.most(state.userId, 'update_sockets');
    if (state.connections.size >= most) {
      dispatch(connection, tooMany('update_sockets', most));
      return;
    }
    let data: Awaited<ReturnType<typeof list>>;
    try {
      data = await list(state.userId);
    } catch (error) {
      // Ending this one lets its client come back, while the others stay.
      if (refusalOf(error).code !== 'unavailable') throw error;
      dispatch(connection, NOT_AVAILABLE);
      return;
    }
    dispatch(connection, { type: 'send', text: JSON.stringify({ type: 'containers', data } satisfies ComputeEvent) });
    state.connections.add(connection);
    if (version === 2) {
      state.followers.add(connection);
      for (const { id, status } of data) if (status === 'running') state.running.add(id);
      state.usageTimer ??= ctx.after(USAGE_EVERY_MS, { type: 'usage' });
    }
    ctx.watch(connection, () => ({ type: 'detached', connection }));
  }

  return {
    kind: COMPUTE_USER.kind,
    answers: table,
    sleepAfterMs: SLEEP_AFTER_MS,
    activate: async (userId) => new ComputeUserState(deps.placement.lease(COMPUTE_USER, userId), userId),
    handle: async (state, message, ctx) => {
      switch (message.type) {
        case 'call':
          await handleCall(table, state, message);
          break;
        case 'attach':
          await attach(state, ctx, message);
          break;
        case 'detached':
          state.connections.delete(message.connection);
          state.followers.delete(message.connection);
          break;
        case 'status':
          pushStatus(state, message.container);
          break;
        case 'changed':
          await pushChanged(deps, state, message.containerId);
          break;
        case 'gone':
          pushGone(state, message.containerId);
          break;
        case 'usage':
          pushUsage(deps, state);
          state.usageTimer = state.followers.size === 0 ? undefined : ctx.after(USAGE_EVERY_MS, { type: 'usage' });
          break;
      }
      ctx.keepAwake(state.connections.size > 0);
      return state;
    },
  };
}
