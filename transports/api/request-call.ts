/** A request as a service's call. */
import type { AnyEndpoint, Call, Caller } from '../../proto/endpoint.ts';
import type { AnswerPlace } from '../../proto/kept-answers.ts';
import type { HttpRequest } from '../../proto/ports/http.ts';
import { basic } from './authenticate.ts';
import type { ClientAddress } from './client-address.ts';
import { check, readQueryLists } from './read.ts';

/**
 * The call of a request, whose parts are validated here. Asking the socket for the address costs more than all of the
 * routing, and few handlers do.
 */
export class RequestCall implements Call {
  readonly caller: Caller | undefined;
  readonly params: unknown;
  readonly query: unknown;
  readonly body: unknown;
  readonly basic: Call['basic'];
  readonly lastEventId: string | undefined;
  readonly requestId: string;
  place: AnswerPlace | undefined;
  readonly #request: HttpRequest;
  readonly #clientAddress: ClientAddress;

  constructor(
    endpoint: AnyEndpoint,
    params: Readonly<Record<string, string>>,
    request: HttpRequest,
    caller: Caller | undefined,
    body: unknown,
    requestId: string,
    clientAddress: ClientAddress,
  ) {
    this.#request = request;
    this.#clientAddress = clientAddress;
    this.caller = caller;
    this.params = endpoint.params === undefined ? params : check(endpoint.params, params, 'path');
    this.query =
      endpoint.query === undefined
        ? undefined
        : check(endpoint.query, readQueryLists(request.query, endpoint), 'query');
    this.body = body;
    this.basic = endpoint.basic === true ? basic(request.header('authorization')) : undefined;
    this.lastEventId = endpoint.events ? request.header('last-event-id') : undefined;
    this.requestId = requestId;
  }

  get address(): string {
    return this.#clientAddress(this.#request);
  }

  get host(): string | undefined {
    return this.#request.header('host');
  }

  get userAgent(): string | undefined {
    return this.#request.header('user-agent');
  }
}
