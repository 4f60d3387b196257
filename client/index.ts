/** `troupe/client`: the platform's interface for programs, in browsers and in Node. docs/guide/client-library.md */
export { addressOfPort, addressOfSite, type OpenPort, type Outlook, readableHost } from './addresses.ts';
export { type ClientOptions, type LimitWait, TroupeClient } from './client.ts';
export { type LocalErrorCode, TroupeError } from './errors.ts';
export type { CommandInContainer, CommandRunOptions } from './follow/command.ts';
export type { ContainersFollowOptions } from './follow/containers.ts';
export type { LogFollowOptions, LogLine, LogReadOptions } from './follow/logs.ts';
export type { MachinesFollowOptions, MetricsFollowOptions } from './follow/metrics.ts';
export type { NotificationsFollowOptions } from './follow/notifications.ts';
export type { Terminal, TerminalFollowOptions, TerminalSize } from './follow/terminal.ts';
export { imageName } from './image-name.ts';
export { CLOSE_CODES, type CloseMeaning, type Following, type StreamEnd, type StreamState } from './socket.ts';
export {
  type ClientTransport,
  type SocketListener,
  type TransportAnswer,
  type TransportRequest,
  type TransportSocket,
  type WebSocketConstructor,
  webTransport,
} from './transport.ts';
export type {
  CallControl,
  CallInput,
  CallName,
  CallReply,
  Container,
  ContainerMetrics,
  MachineMetrics,
  UserNotification,
} from './types.ts';
