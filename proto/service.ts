/** What a service shows to the transports: its endpoints, and one way to call each of them. */
import type { AnyEndpoint, Call, ServiceName } from './endpoint.ts';
import type { ByteSource, SocketHandlers } from './ports/http.ts';

/** How a service is. `problems` are sentences for operators; empty when all is well. */
export interface Health {
  readonly ok: boolean;
  readonly problems: readonly string[];
}

/** A stream of server-sent events (WHATWG HTML, section 9.2). Ends when its reader leaves, or by `end`. */
export interface EventStream extends ByteSource {
  end(): void;
}

/** A running service. Both calls throw `Refusal` when the answer is no; any other error is a fault on our side. */
export interface Service {
  readonly name: ServiceName;
  readonly endpoints: readonly AnyEndpoint[];
  /** Answers a request. The result fits the endpoint's reply schema. */
  call(endpoint: AnyEndpoint, call: Call): Promise<unknown>;
  /** Decides about a WebSocket before the upgrade; what comes back owns the socket. */
  connect(endpoint: AnyEndpoint, call: Call): Promise<SocketHandlers>;
  /** Opens a stream of server-sent events; absent when the service has none. */
  follow?(endpoint: AnyEndpoint, call: Call): Promise<EventStream>;
  health(): Promise<Health>;
}
