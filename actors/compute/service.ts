/** The compute service: its endpoints, who answers them, and its supervision tree. */
import { computeEndpoints, computeSocket, logs, terminal } from '../../proto/compute.ts';
import type { AnyEndpoint, Call, CallOf } from '../../proto/endpoint.ts';
import type { SocketHandlers } from '../../proto/http.ts';
import type { Service } from '../../proto/service.ts';
import {
  type AnyRef,
  child,
  type Entities,
  entities,
  type SystemRef,
  spawnStateless,
  startSupervisor,
  stop,
  stopped,
} from '../../supervision/index.ts';
import { ASK_TIMEOUT, actorKey, callerOf, callThrough } from '../door.ts';
import { type ContainerMessage, containerKind } from './container.ts';
import type { ComputeDeps } from './deps.ts';
import { logConnection } from './logs.ts';
import { connect } from './streams.ts';
import { terminalConnection } from './terminal.ts';
import { type UserMessage, userKind } from './user.ts';
import { type EngineHealth, startWatcher } from './watcher.ts';
