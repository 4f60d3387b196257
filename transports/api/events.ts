/** Server-sent events: a reply that is a stream, ended when the token that opened it no longer opens it. */
import type { AnyEndpoint, Call } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import type { HttpPushReply } from '../../proto/ports/http.ts';
import type { Service } from '../../proto/service.ts';
import { neededScope } from './needed-scope.ts';
import type { OpenStreams } from './open-streams.ts';

const HEADERS: readonly (readonly [string, string])[] = [
  ['content-type', 'text/event-stream; charset=utf-8'],
  ['cache-control', 'no-store'],
  ['x-content-type-options', 'nosniff'],
  // Proxies that gather a response before they send it would keep events back.
  ['x-accel-buffering', 'no'],
];

/** Makes a reply of the stream of `call`, whose caller was proven after the news `since`. Rejects as the service. */
export async function eventsOf(
  service: Service,
  streams: OpenStreams,
  endpoint: AnyEndpoint,
  params: Readonly<Record<string, string>>,
  call: Call,
  since: number,
  onReply: ((endpoint: string, status: number) => void) | undefined,
): Promise<HttpPushReply> {
  if (service.follow === undefined) throw new Refusal('not_found');
  const stream = await service.follow(endpoint, call);
  const { caller } = call;
  const source =
    caller === undefined ? stream : streams.guardEvents(caller, neededScope(endpoint, params, caller), stream, since);
  onReply?.(endpoint.name, 200);
  return { status: 200, headers: [...HEADERS, ['x-request-id', call.requestId]], source };
}
