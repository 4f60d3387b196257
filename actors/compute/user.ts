/**
 * The actor of one user of the compute service (kind `compute/user`, key: user id). It serialises what counts against
 * the user's limits, and pushes news of the user's containers to the user's connections, encoded once.
 *
 *   asleep -- call or connection --> awake -- no connection and idle --> asleep
 */
import {
  type ComputeEvent,
  createContainer,
  createSshKey,
  deleteSshKey,
  type ImageView,
  listContainers,
  listImages,
  listSshKeys,
  MAX_CONTAINERS,
  MAX_SOCKETS,
  MAX_SSH_KEYS,
} from '../../proto/compute/endpoints.ts';
import { parsePublicKey } from '../../proto/compute/ssh-key.ts';
import { Refusal } from '../../proto/errors.ts';
import { newId } from '../../proto/ids.ts';
import type { ShardLease } from '../../proto/ports/placement.ts';
import { parseImage } from '../../proto/repositories.ts';
import { invalidField } from '../../proto/validation-messages.ts';
import { audit } from '../../storage/audit.ts';
import { containersOfUser, insertContainer } from '../../storage/compute/containers.ts';
import { tellCompute } from '../../storage/compute/news.ts';
import { attachKeys, deleteKey, insertKey, listKeys, ownedKeys } from '../../storage/compute/ssh-keys.ts';
import { fenced } from '../../storage/fenced.ts';
import { isUserActive } from '../../storage/offboarding.ts';
import { dispatch, type EntityContext, type Ref } from '../../supervision/index.ts';
import { auditEntry } from '../service/audit.ts';
import type { ConnectionMessage } from '../service/connection.ts';
import { callerOf, type Handler, handleCall, handler, handlers, refusalOf } from '../service/dispatch.ts';
import type { AnsweringKind } from '../service/parts.ts';
import type { ComputeDeps } from './deps.ts';
import { imageProblem } from './image-rules.ts';
import { listingHandler } from './listing.ts';
import { COMPUTE_USER, type PlacedStatus, type UserMail } from './placed.ts';
import { tooMany } from './socket-limits.ts';
import { containerView, createdView, externalIp, keyView } from './views.ts';

/** What the actor of a user keeps. */
interface ComputeUserState {
  /** What it may write by. */
  readonly lease: ShardLease;
  readonly userId: string;
  readonly connections: Set<Ref<ConnectionMessage>>;
}

/** Sends a container's status to all connections of its user, encoded once. */
function pushStatus({ connections }: ComputeUserState, row: PlacedStatus): void {
  if (connections.size === 0) return;
  const data = { container_id: row.id, status: row.status, external_ip: externalIp(row) };
  const text = JSON.stringify({ type: 'container_status', data } satisfies ComputeEvent);
  for (const connection of connections) dispatch(connection, { type: 'send', text });
}

/** What the actor understands. */
type ComputeUserMessage =
  | UserMail
  /** A connection is gone. */
  | { readonly type: 'detached'; readonly connection: Ref<ConnectionMessage> };

const SLEEP_AFTER_MS = 60_000;

/** The kind, for the service's tree. `reconcile` wakes a container's actor. */
export function userKind(
  deps: ComputeDeps,
  reconcile: (containerId: string) => void,
): AnsweringKind<ComputeUserMessage, ComputeUserState> {
  const { db } = deps;

  const list = async (userId: string) => (await containersOfUser(db, userId)).map((row) => containerView(row, deps));

  const table = handlers<ComputeUserState>(
    handler(listContainers, async (state: ComputeUserState) => ({ containers: await list(state.userId) })),
    creationHandler(deps, reconcile),
    ...sshKeyHandlers(deps, reconcile),
    imagesHandler(deps),
    // Nodes of the version before ask the user's actor.
    listingHandler(deps),
  );

  async function attach(
    state: ComputeUserState,
    ctx: EntityContext<ComputeUserMessage>,
    connection: Ref<ConnectionMessage>,
  ): Promise<void> {
    dispatch(connection, { type: 'attached', by: ctx.self });
    if (state.connections.has(connection)) return;
    // Those at all nodes: each counts its own before.
    if (state.connections.size >= MAX_SOCKETS.updates) {
      dispatch(connection, tooMany('updates'));
      return;
    }
    let data: Awaited<ReturnType<typeof list>>;
    try {
      data = await list(state.userId);
    } catch (error) {
      // Ending this one lets its client come back, while the others stay.
      if (refusalOf(error).code !== 'unavailable') throw error;
      dispatch(connection, { type: 'close', code: 1013, reason: 'not available, try again' });
      return;
    }
    dispatch(connection, { type: 'send', text: JSON.stringify({ type: 'containers', data } satisfies ComputeEvent) });
    state.connections.add(connection);
    ctx.watch(connection, () => ({ type: 'detached', connection }));
  }

  return {
    kind: COMPUTE_USER.kind,
    answers: table,
    sleepAfterMs: SLEEP_AFTER_MS,
    activate: async (userId) => ({ lease: deps.placement.lease(COMPUTE_USER, userId), userId, connections: new Set() }),
    handle: async (state, message, ctx) => {
      switch (message.type) {
        case 'call':
          await handleCall(table, state, message);
          break;
        case 'attach':
          await attach(state, ctx, message.connection);
          break;
        case 'detached':
          state.connections.delete(message.connection);
          break;
        case 'status':
          pushStatus(state, message.container);
          break;
      }
      ctx.keepAwake(state.connections.size > 0);
      return state;
    },
  };
}

/** Its handler. `reconcile` wakes the actor of a container whose row is written. */
function creationHandler(deps: ComputeDeps, reconcile: (containerId: string) => void): Handler<ComputeUserState> {
  return handler(createContainer, async (state: ComputeUserState, call) => {
    const { body } = call;
    // The default image under its own name is still the default, whichever that is at the time.
    const image = body.image === deps.defaultImage ? null : (body.image ?? null);
    const problem = image === null ? undefined : await problemOf(deps, image, callerOf(call).username);
    if (problem !== undefined) throw invalidField('image', problem);
    const wanted = [...new Set(body.ssh_key_ids)];
    const row = await fenced(deps.db, state.lease, async (tx) => {
      if (!(await isUserActive(tx, state.userId))) throw new Refusal('unauthorized');
      const owned = new Set(await ownedKeys(tx, state.userId, wanted));
      const missing = wanted.find((id) => !owned.has(id));
      if (missing !== undefined) throw invalidField('ssh_key_ids', `you have no SSH key ${missing}`);
      const inserted = await insertContainer(tx, {
        id: newId(),
        userId: state.userId,
        name: body.name,
        instanceType: body.instance_type,
        memoryMb: body.memory_mb,
        storageGb: body.storage_gb,
        image,
        pullPolicy: body.pull_policy,
        mountPaths: body.mount_paths,
        sshEnabled: body.ssh_enabled,
      });
      if (inserted === undefined) {
        throw new Refusal('limit_reached', {
          message: `You have ${MAX_CONTAINERS} containers, which is the limit: delete one first.`,
        });
      }
      await attachKeys(tx, inserted.id, wanted);
      const { name, instanceType } = inserted;
      await audit(tx, auditEntry(call, 'container.create', inserted.id, { name, instance_type: instanceType, image }));
      return inserted;
    });
    deps.log.info({ userId: state.userId, containerId: row.id }, 'container created');
    pushStatus(state, row);
    reconcile(row.id);
    return createdView(row, deps.domain);
  });
}

/** What is wrong with an image for this user; undefined when it may be used. */
async function problemOf(deps: ComputeDeps, image: string, username: string): Promise<string | undefined> {
  const { registryHost } = deps;
  const repository = registryHost === undefined ? undefined : parseImage(image, registryHost)?.repository;
  const pullable = repository === undefined ? [] : await deps.mayPull?.(username, [repository]);
  return imageProblem(image, registryHost, username, pullable !== undefined && pullable.length > 0);
}

function imagesHandler(deps: ComputeDeps): Handler<ComputeUserState> {
  return handler(listImages, async (_: ComputeUserState, call) => {
    const builtin: ImageView = {
      name: deps.defaultImage === deps.engine.baseImage ? 'Debian (default)' : `${deps.defaultImage} (default)`,
      image: deps.defaultImage,
      source: 'builtin',
    };
    const { userId, username } = callerOf(call);
    const found = await deps.catalog?.list({ userId, username }).catch((error: unknown) => {
      // Containers can still be made of the default image.
      deps.log.warn({ err: error }, 'the image registry does not answer');
      return [];
    });
    const prefix = `${deps.registryHost}/`;
    const registry = (found ?? []).map(
      (image): ImageView => ({
        name: image.startsWith(prefix) ? image.slice(prefix.length) : image,
        image,
        source: 'registry',
      }),
    );
    return [builtin, ...registry];
  });
}

/** Their handlers. `reconcile` wakes the actor of a container that a deleted key could log in to. */
function sshKeyHandlers(
  deps: Pick<ComputeDeps, 'db'>,
  reconcile: (containerId: string) => void,
): readonly Handler<ComputeUserState>[] {
  return [
    handler(listSshKeys, async (state: ComputeUserState) => ({
      ssh_keys: (await listKeys(deps.db, state.userId)).map(keyView),
    })),
    handler(createSshKey, async (state: ComputeUserState, call) => {
      const { body } = call;
      const key = parsePublicKey(body.public_key.trim());
      if (key === undefined) {
        throw invalidField(
          'public_key',
          'must be one line of an OpenSSH public key (ssh-ed25519, ssh-rsa of at least 2048 bits, or ' +
            'ecdsa-sha2-nistp256/384/521)',
        );
      }
      const publicKey = [key.type, key.base64, key.comment].filter((part) => part !== '').join(' ');
      const row = await fenced(deps.db, state.lease, async (tx) => {
        const { fingerprint } = key;
        const inserted = await insertKey(tx, { userId: state.userId, name: body.name, publicKey, fingerprint });
        if (inserted === 'full') {
          throw new Refusal('limit_reached', {
            message: `You have ${MAX_SSH_KEYS} SSH keys, which is the limit: delete one first.`,
          });
        }
        if (inserted === 'duplicate') {
          throw new Refusal('conflict', { message: `You have this key already (${fingerprint}).` });
        }
        await audit(tx, auditEntry(call, 'ssh_key.create', String(inserted.id), { name: body.name, fingerprint }));
        return inserted;
      });
      return keyView(row);
    }),
    handler(deleteSshKey, async (state: ComputeUserState, call) => {
      const { id } = call.params;
      const deleted = await fenced(deps.db, state.lease, async (tx) => {
        const key = await deleteKey(tx, state.userId, id);
        if (key === undefined) throw new Refusal('not_found', { message: 'You have no SSH key with this id.' });
        const { name, fingerprint } = key;
        await audit(tx, auditEntry(call, 'ssh_key.delete', String(id), { name, fingerprint }));
        await tellCompute(tx, { kind: 'key', userId: state.userId, fingerprint });
        return key;
      });
      for (const containerId of deleted.containerIds) reconcile(containerId);
      return { status: 'ok' as const };
    }),
  ];
}
