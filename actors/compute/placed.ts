/** Users and containers of the compute service, wherever they are awake: what they are told from other nodes. */
import { z } from 'zod';
import { computeEndpoints } from '../../proto/compute/endpoints.ts';
import { statusSchema } from '../../proto/compute/fields.ts';
import { listAllContainers } from '../../proto/compute/images.ts';
import type { AnyEndpoint } from '../../proto/endpoint.ts';
import type { ContainerRow } from '../../storage/compute/containers.ts';
import type { Ref } from '../../supervision/index.ts';
import { field, type PlacedKind } from '../../supervision/placement/index.ts';
import { callCodec, connectionCodec } from '../service/codecs.ts';
import type { ConnectionMessage } from '../service/connection.ts';
import type { CallMessage } from '../service/dispatch.ts';

/** The service whose nodes hold them. */
export const SERVICE = 'compute';

/** What a user's connections are told of a container. */
export type PlacedStatus = Pick<ContainerRow, 'id' | 'status' | 'address' | 'externalAddress'>;

/** What the actor of a user is told. */
export type UserMail =
  | CallMessage
  /** Repeated while the connection lives; a new one gets the whole list first. */
  | { readonly type: 'attach'; readonly connection: Ref<ConnectionMessage>; readonly version: StreamVersion }
  /** A container of this user changed its status. */
  | { readonly type: 'status'; readonly container: PlacedStatus }
  /** A container of this user changed in what its view shows, or is being deleted. */
  | { readonly type: 'changed' | 'gone'; readonly containerId: string };

/** What a connection is told: statuses (1), or whole containers (2). */
type StreamVersion = 1 | 2;

/** What the actor of a container is told. */
export type ContainerMail =
  | CallMessage
  | { readonly type: 'look' }
  /** Its timer fired. */
  | { readonly type: 'expiry'; readonly done: Ref<'done'> }
  /** A terminal that depends on this container. Repeated while it lives. */
  | { readonly type: 'attach'; readonly terminal: Ref<ConnectionMessage> };

const endpointsOf = (kind: string) => computeEndpoints.filter((endpoint: AnyEndpoint) => endpoint.actor.kind === kind);
const statusNews = z.object({
  id: z.string(),
  status: statusSchema,
  address: z.string().nullable(),
  // Nodes of a version before Kubernetes do not say it.
  externalAddress: z.string().nullable().default(null),
});
const viewNews = z.object({ type: z.enum(['changed', 'gone']), containerId: z.string() });
const [userCalls, containerCalls] = [
  // The listing for nodes of the version before.
  callCodec([...endpointsOf('compute/user'), listAllContainers]),
  callCodec(endpointsOf('compute/container')),
];

export const COMPUTE_USER: PlacedKind<UserMail> = {
  kind: 'compute/user',
  service: SERVICE,
  codec: {
    encode(message, refs) {
      switch (message.type) {
        case 'call':
          return userCalls.encode(message, refs);
        case 'attach':
          return {
            type: 'attach',
            connection: refs.out(message.connection, connectionCodec),
            version: message.version,
          };
        case 'status': {
          const { id, status, address, externalAddress } = message.container;
          return { type: 'status', container: { id, status, address, externalAddress } };
        }
        case 'changed':
        case 'gone':
          return { type: message.type, containerId: message.containerId };
      }
    },
    decode(wire, refs): UserMail {
      switch (field(wire, 'type')) {
        case 'attach':
          return {
            type: 'attach',
            connection: refs.in(field(wire, 'connection'), connectionCodec),
            // Nodes of the version before do not say it.
            version: field(wire, 'version') === 2 ? 2 : 1,
          };
        case 'status':
          return { type: 'status', container: statusNews.parse(field(wire, 'container')) };
        case 'changed':
        case 'gone':
          return viewNews.parse(wire);
        default:
          return userCalls.decode(wire, refs);
      }
    },
  },
};

export const COMPUTE_CONTAINER: PlacedKind<ContainerMail> = {
  kind: 'compute/container',
  service: SERVICE,
  timer: (_, done) => ({ type: 'expiry', done }),
  codec: {
    encode(message, refs) {
      switch (message.type) {
        case 'call':
          return containerCalls.encode(message, refs);
        case 'attach':
          // Its name between nodes, which those of the version before know.
          return { type: 'attach', stream: refs.out(message.terminal, connectionCodec) };
        case 'look':
        // Timers fire at the node that holds the container.
        case 'expiry':
          return { type: 'look' };
      }
    },
    decode(wire, refs): ContainerMail {
      switch (field(wire, 'type')) {
        case 'attach':
          return { type: 'attach', terminal: refs.in(field(wire, 'stream'), connectionCodec) };
        case 'look':
          return { type: 'look' };
        default:
          return containerCalls.decode(wire, refs);
      }
    },
  },
};
