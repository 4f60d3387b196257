/** How requests end: each reply is counted, and names its request. */
import { fittingReason } from '../../lib/close-frame.ts';
import { ERRORS, Refusal } from '../../proto/errors.ts';
import {
  BodyError,
  type HttpAnswer,
  type HttpReply,
  type HttpRequest,
  type SocketHandlers,
  type UpgradeAnswer,
} from '../../proto/ports/http.ts';
import type { Log } from '../../proto/ports/log.ts';
import { methodReply, plainReply, refusalReply } from './replies.ts';

interface EndingsOptions {
  readonly log: Log;
  readonly onReply?: (endpoint: string, status: number) => void;
  readonly plainText?: (refusal: Refusal, endpoint: string) => string;
}

/** The replies of one listener. `endpoint`: its name, '' for a path that leads nowhere. */
export class Endings {
  readonly #options: EndingsOptions;

  constructor(options: EndingsOptions) {
    this.#options = options;
  }

  /** The reply with the request's id. */
  finish<R extends HttpAnswer>(endpoint: string, requestId: string, reply: R): R {
    this.#options.onReply?.(endpoint, reply.status);
    return { ...reply, headers: [...reply.headers, ['x-request-id', requestId]] };
  }

  /** The reply of whatever went wrong; what is no refusal, and is not the client's doing, is logged. */
  fail(request: HttpRequest, endpoint: string, requestId: string, error: unknown, isBasic?: boolean): HttpReply {
    const { log } = this.#options;
    if (error instanceof Refusal) {
      if (error.code === 'internal') log.error({ requestId, endpoint, err: error.cause ?? error }, 'request failed');
      return this.finish(endpoint, requestId, this.#refused(request, endpoint, error, isBasic));
    }
    // Nobody reads the reply of a client that left.
    if (!(error instanceof BodyError)) log.error({ requestId, endpoint, err: error }, 'request failed');
    return this.finish(endpoint, requestId, this.#refused(request, endpoint, new Refusal('internal')));
  }

  /** Programs read the refusal of a socket as an answer. Browsers, which name the page, show it to nobody. */
  refuse(request: HttpRequest, endpoint: string, requestId: string, error: unknown): UpgradeAnswer {
    const reply = this.fail(request, endpoint, requestId, error);
    if (request.header('origin') === undefined) return { refuse: reply };
    return { accept: refusedSocket(error instanceof Refusal ? error : new Refusal('internal')) };
  }

  /** The reply for a path that does not answer the method. */
  notAllowed(request: HttpRequest, requestId: string, allow: readonly string[]): HttpReply {
    const reply = methodReply(allow);
    return this.finish('', requestId, this.#isPlain(request) ? plainReply(reply, 'method not allowed') : reply);
  }

  #refused(request: HttpRequest, endpoint: string, refusal: Refusal, isBasic?: boolean): HttpReply {
    const reply = refusalReply(refusal, isBasic);
    const { plainText } = this.#options;
    return plainText !== undefined && this.#isPlain(request) ? plainReply(reply, plainText(refusal, endpoint)) : reply;
  }

  /** Whether refusals are plain text: those of a service that speaks so, unless the client asks for JSON. */
  #isPlain(request: HttpRequest): boolean {
    return this.#options.plainText !== undefined && !prefersJson(request.header('accept'));
  }
}

/** Longest header that is read: a longer one says nothing. */
const MAX_ACCEPT = 1024;

/**
 * Whether `accept` (RFC 9110, section 12.5.1) prefers JSON to plain text. Not if it likes both as well, as one that
 * takes everything does: plain text is what the interface promises.
 */
export function prefersJson(accept: string | undefined): boolean {
  if (accept === undefined || accept.length > MAX_ACCEPT) return false;
  const ranges = accept.toLowerCase().split(',').map(rangeOf);
  const quality = (...names: readonly string[]) =>
    names.map((name) => ranges.find((range) => range.name === name)?.quality).find((found) => found !== undefined) ?? 0;
  // The most specific range that fits counts.
  return quality('application/json', 'application/*', '*/*') > quality('text/plain', 'text/*', '*/*');
}

function rangeOf(text: string): { readonly name: string; readonly quality: number } {
  const [name = '', ...parameters] = text.split(';').map((part) => part.trim());
  const [, given] =
    parameters.map((part) => /^q=([01](?:\.\d{0,3})?)$/.exec(part)).find((found) => found !== null) ?? [];
  return { name, quality: given === undefined ? 1 : Number(given) };
}

/** Close codes of applications begin here (RFC 6455, section 7.4.2); the status of the refusal follows. */
const FIRST_CODE = 4000;

/**
 * A socket that is closed at once: with 4401 for a 401, say, and the sentence of the refusal. Browsers tell a page
 * nothing of an answer before the upgrade.
 */
function refusedSocket({ code, message }: Refusal): SocketHandlers {
  return {
    open: (socket) => socket.close(FIRST_CODE + ERRORS[code].status, fittingReason(message)),
    message() {},
    drain() {},
    close() {},
  };
}
