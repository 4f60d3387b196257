import type { HttpResponse, HttpRequest as RawRequest, TemplatedApp, us_listen_socket } from 'uWebSockets.js';
import { setTimeout as delay } from 'node:timers/promises';
import { InterruptiblePause, isPromise } from '../../lib/waiting.ts';
import type { HttpReply, HttpServer, HttpServerOptions, UpgradeAnswer } from '../../proto/ports/http.ts';
import { Heartbeat } from '../ws/heartbeat.ts';
import { GOODBYE_MS, MAX_BUFFERED_BYTES, MAX_MESSAGE_BYTES, METHODS, PING_MS } from './limits.ts';
import { claimable, ListenError } from './listen-error.ts';
import { badRequest, checkReply, closingReply, headTooLarge, internalError, unknownMethod } from './reply-head.ts';
import { asksForWebSocket, upgradeProblem } from './upgrade.ts';
import type { Uws } from './uws-library.ts';
import { UwsExchange, writeReply } from './uws-reply.ts';
import { UwsRequest } from './uws-request.ts';
import { RESIDENT_HEADER, Resident } from './uws-resident.ts';
import { type UwsLink, UwsSocket } from './uws-socket.ts';

type UpgradeContext = Parameters<HttpResponse['upgrade']>[4];
/** The server on uWebSockets.js: all that the library calls back, which must neither throw nor return unanswered. */
class UwsServer implements HttpServer {
  readonly adapter = 'uws';
  port = 0;
  closing = false;
  readonly #library: Uws;
  readonly #app: TemplatedApp;
  readonly #options: HttpServerOptions;
  readonly #sockets: Heartbeat<UwsSocket>;
  readonly #resident = new Resident();
  #listening: us_listen_socket | undefined;
  #running = 0;
  readonly #idle = new InterruptiblePause();
  /** Connections that are open and no WebSocket. */
  #connections = 0;
  readonly #alone = new InterruptiblePause();
  #end: Promise<void> | undefined;

  constructor(library: Uws, options: HttpServerOptions) {
    this.#library = library;
    this.#options = options;
    const pingMs = options.pingMs ?? PING_MS;
    this.#sockets = new Heartbeat(pingMs);
    this.#app = library.App();
    this.#app.ws<UwsLink>('/*', {
      maxPayloadLength: options.maxMessageBytes ?? MAX_MESSAGE_BYTES,
      // Counted by UwsSocket; the library would drop frames silently.
      maxBackpressure: 0,
      compression: library.DISABLED,
      // Pings are ours (any period); this only ends a peer that does not finish a closing handshake. 8 to 960 seconds.
      idleTimeout: Math.min(960, Math.max(8, Math.ceil((pingMs * 4) / 1000))),
      sendPingsAutomatically: false,
      upgrade: (res, raw, context) => this.#upgrade(res, raw, context),
      open: (ws) => {
        const { socket } = ws.getUserData();
        // The library does not say so of an upgrade.
        this.#counted(-1);
        if (!this.#resident.owns(socket)) this.#sockets.add(socket);
        socket.opened(ws);
      },
      message: (ws, data, isBinary) => ws.getUserData().socket.received(data, isBinary),
      pong: (ws) => ws.getUserData().socket.heard(),
      drain: (ws) => ws.getUserData().socket.drained(),
      subscription: (ws) => ws.getUserData().socket.subscribed(),
      close: (ws, code, reason) => {
        // Of the library's socket, only this still works here.
        const { socket } = ws.getUserData();
        this.#sockets.remove(socket);
        socket.closed(code, reason);
      },
    });
    this.#app.filter((_, change) => this.#counted(Number(change)));
    this.#app.get('/*', (res, raw) => this.#get(res, raw));
    this.#app.head('/*', (res, raw) => this.#checked(res, raw, 'HEAD'));
    this.#app.any('/*', (res, raw) => this.#checked(res, raw, raw.getCaseSensitiveMethod()));
  }

  /** Resolves once bound. Rejects with ListenError. */
  async open(): Promise<this> {
    const { host, port } = this.#options;
    try {
      // The library shares a port that is already taken instead of failing.
      await claimable(host, port);
      this.#listening = await new Promise<us_listen_socket>((resolve, reject) => {
        this.#app.listen(host, port, (socket) => {
          if (socket === false) reject(new ListenError('address_unavailable', `Cannot listen on ${host}:${port}.`));
          else resolve(socket);
        });
      });
    } catch (error) {
      this.#sockets.stop();
      this.#app.close();
      throw error;
    }
    this.port = this.#library.us_socket_local_port(this.#listening);
    return this;
  }

  close(graceMs: number, lingerMs = 0): Promise<void> {
    this.#end ??= this.#finish(graceMs, lingerMs);
    return this.#end;
  }

  /** A connection came or went. */
  #counted(change: number): void {
    this.#connections += change;
    if (this.#connections <= 0) this.#alone.wake();
  }

  fault(error: unknown): void {
    this.#options.onFault?.(error);
  }

  /** An exchange is over. */
  ended(): void {
    this.#running -= 1;
    if (this.#running === 0) this.#idle.wake();
  }

  #get(res: HttpResponse, raw: RawRequest): void {
    if (raw.getHeader('upgrade') !== '' && asksForWebSocket(raw.getHeader('upgrade'))) {
      // The library routes only heads with a key of the right length to `upgrade`.
      const request = new UwsRequest(res, raw, 'GET');
      this.#refuse(res, upgradeProblem((name) => request.header(name)) ?? badRequest);
    } else if (raw.getHeader('content-length') !== '' || raw.getHeader('transfer-encoding') !== '') {
      this.#checked(res, raw, 'GET');
    } else {
      const request = new UwsRequest(res, raw, 'GET');
      if (request.hasHost()) this.#handle(res, request);
      else this.#refuse(res, badRequest);
    }
  }

  /** Requests that may carry a body or change something: the whole head is checked before a handler sees it. */
  #checked(res: HttpResponse, raw: RawRequest, method: string): void {
    const request = new UwsRequest(res, raw, method);
    if (!METHODS.has(method)) this.#refuse(res, unknownMethod);
    else if (!request.fits()) this.#refuse(res, headTooLarge);
    else if (!request.isFramed() || !request.hasHost()) this.#refuse(res, badRequest);
    else this.#handle(res, request);
  }

  /**
   * Refuses what was not understood, in a later turn: after an answer in its callback the library goes on with what
   * stands behind it as another request; it cuts a connection on which something comes before the answer.
   */
  #refuse(res: HttpResponse, reply: HttpReply): void {
    let isGone = false;
    this.#running += 1;
    res.onAborted(() => {
      isGone = true;
      this.ended();
    });
    setImmediate(() => {
      if (isGone) return;
      res.cork(() => writeReply(res, reply, false, true));
      this.ended();
    });
  }

  #handle(res: HttpResponse, request: UwsRequest): void {
    let answer: ReturnType<HttpServerOptions['onRequest']>;
    try {
      answer = this.#options.onRequest(request);
      if (!isPromise(answer) && !('source' in answer) && request.unread === undefined) {
        checkReply(answer);
        if (writeReply(res, answer, request.method === 'HEAD', this.closing)) {
          request.release();
          return;
        }
      }
    } catch {
      answer = internalError;
    }
    const exchange = this.#begin(res, request);
    if (!request.fits()) exchange.answer(headTooLarge, true);
    if (isPromise(answer)) exchange.follow(answer);
    else exchange.answer(answer);
  }

  #begin(res: HttpResponse, request: UwsRequest): UwsExchange {
    this.#running += 1;
    return new UwsExchange(res, request, this);
  }

  #upgrade(res: HttpResponse, raw: RawRequest, context: UpgradeContext): void {
    if (!asksForWebSocket(raw.getHeader('upgrade'))) {
      this.#get(res, raw);
      return;
    }
    if (raw.getHeader(RESIDENT_HEADER) === this.#resident.secret) {
      const key = raw.getHeader('sec-websocket-key');
      res.upgrade<UwsLink>({ socket: this.#resident.accept() }, key, '', '', context);
      return;
    }
    const request = new UwsRequest(res, raw, 'GET');
    if (!request.fits()) {
      this.#refuse(res, headTooLarge);
      return;
    }
    const problem = upgradeProblem((name) => request.header(name));
    if (problem !== undefined) {
      this.#refuse(res, problem);
      return;
    }
    // Bytes that follow would be taken for a body by one side and for frames by the other.
    if (request.header('transfer-encoding') !== undefined || Number(request.header('content-length') ?? 0) !== 0) {
      this.#refuse(res, badRequest);
      return;
    }
    const exchange = this.#begin(res, request);
    const settle = (answer: UpgradeAnswer) => this.#settle(res, request, exchange, answer, context);
    const fail = () => exchange.answer(internalError, true);
    try {
      Promise.resolve(this.#options.onUpgrade(request)).then(settle).catch(fail);
    } catch {
      fail();
    }
  }

  #settle(
    res: HttpResponse,
    request: UwsRequest,
    exchange: UwsExchange,
    answer: UpgradeAnswer,
    context: UpgradeContext,
  ): Promise<void> | undefined {
    if ('refuse' in answer) {
      exchange.answer(answer.refuse);
      return undefined;
    }
    if (this.closing) {
      exchange.answer(closingReply, true);
      return undefined;
    }
    const socket = new UwsSocket(answer.accept, this.#options.maxBufferedBytes ?? MAX_BUFFERED_BYTES, answer.watch);
    const key = request.header('sec-websocket-key') ?? '';
    const protocol = request.header('sec-websocket-protocol') ?? '';
    // Not corked: `cork` looks at the response again afterwards, and after an upgrade that kept its memory in place it
    // takes what the WebSocket left there for a response to close. The price is a head that leaves in pieces.
    const upgrade = () => res.upgrade<UwsLink>({ socket }, key, protocol, '', context);
    // The library writes a line to standard error for each upgrade outside of its callbacks. So it happens in one of
    // another socket; when there is none, one of our own is made.
    const inCallback = () => {
      const other = this.#sockets.any() ?? this.#resident.socket;
      return other?.inCallback(upgrade) === true;
    };
    if (this.#sockets.any() !== undefined || this.#resident.socket !== undefined) {
      exchange.settle(() => inCallback() || upgrade());
      return undefined;
    }
    return this.#resident.come(this.#options.host, this.port).then(() => {
      if (this.closing) exchange.answer(closingReply, true);
      else exchange.settle(() => inCallback() || upgrade());
    });
  }

  async #finish(graceMs: number, lingerMs: number): Promise<void> {
    this.closing = true;
    if (this.#listening !== undefined) this.#library.us_listen_socket_close(this.#listening);
    const open = this.#sockets.all();
    for (const socket of open) socket.close(1001, 'server is closing');
    // The library does not say when a peer has answered the closing handshake.
    if (open.length > 0) await delay(Math.min(graceMs, GOODBYE_MS));
    if (lingerMs > 0 && this.#connections > 0) {
      this.#alone.reset();
      await this.#alone.wait(lingerMs);
    }
    if (this.#running > 0) {
      this.#idle.reset();
      await this.#idle.wait(graceMs);
    }
    this.#sockets.stop();
    this.#resident.end();
    this.#app.close();
  }
}

/** Opens a server on uWebSockets.js. Rejects with ListenError. */
export function listenUws(library: Uws, options: HttpServerOptions): Promise<HttpServer> {
  return new UwsServer(library, options).open();
}
