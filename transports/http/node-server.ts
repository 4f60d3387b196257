import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http';
import { type Socket, Server as TcpServer } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { InterruptiblePause, isPromise } from '../../lib/waiting.ts';
import type { HttpAnswer, HttpReply, HttpServer, HttpServerOptions, UpgradeAnswer } from '../../proto/ports/http.ts';
import { readAuthority } from '../wire/h1/request-head.ts';
import { NodeSockets } from '../ws/node-socket.ts';
import * as limits from './limits.ts';
import { ListenError } from './listen-error.ts';
import { NodePush, writePushHead, writeReply } from './node-reply.ts';
import { NodeRequest } from './node-request.ts';
import {
  badRequest,
  closingReply,
  dropStream,
  headTooLarge,
  internalError,
  plainError,
  soundReply,
  statusLine,
  unknownMethod,
} from './reply-head.ts';
import { asksForWebSocket, upgradeProblem } from './upgrade.ts';

/** What node's parser refused, as a reply. */
function refusalOf(code: unknown): HttpReply {
  if (code === 'HPE_HEADER_OVERFLOW') return headTooLarge;
  if (code === 'HPE_INVALID_METHOD') return unknownMethod;
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return plainError(408, 'timeout', 'The request took too long to arrive.');
  return badRequest;
}

/** Path and query, whatever form the target has (RFC 9112, 3.2); undefined when it or Host is none, or they differ. */
function targetOf({ method = '', url = '', rawHeaders, httpVersionMinor }: IncomingMessage): string | undefined {
  const hosts = rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === 'host');
  const authority = readAuthority(method, url, hosts, httpVersionMinor === 0 ? 0 : 1);
  return 'status' in authority ? undefined : authority.target;
}

/** The server on node:http, with ws for its WebSockets. */
class NodeServer implements HttpServer {
  readonly adapter = 'node';
  readonly #options: HttpServerOptions;
  readonly #server: Server;
  readonly #sockets: NodeSockets;
  readonly #refused = new WeakSet<Socket>();
  readonly #pending = new Set<PendingUpgrade>();
  #closing = false;
  #running = 0;
  readonly #idle = new InterruptiblePause();
  #end: Promise<void> | undefined;

  constructor(options: HttpServerOptions) {
    this.#options = options;
    this.#sockets = new NodeSockets({
      maxMessageBytes: options.maxMessageBytes ?? limits.MAX_MESSAGE_BYTES,
      maxBufferedBytes: options.maxBufferedBytes ?? limits.MAX_BUFFERED_BYTES,
      pingMs: options.pingMs ?? limits.PING_MS,
    });
    this.#server = createServer({
      maxHeaderSize: limits.MAX_HEAD_BYTES,
      headersTimeout: limits.HEAD_TIMEOUT_MS,
      requestTimeout: limits.BODY_TIMEOUT_MS,
      keepAliveTimeout: limits.HEAD_TIMEOUT_MS,
      connectionsCheckingInterval: 1_000,
      joinDuplicateHeaders: true,
      // Looked at with the target, for both must say the same.
      requireHostHeader: false,
    });
    // Past its bound node drops headers silently: one more is let in, so that the excess is seen and refused.
    this.#server.maxHeadersCount = limits.MAX_HEADERS + 1;
    this.#server.on('request', (message, response) => this.#request(message, response));
    this.#server.on('upgrade', (message, socket, head) => this.#upgrade(message, socket, head));
    this.#server.on('clientError', (error, socket) => this.#malformed(error, socket));
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  /** Resolves once bound. Rejects with ListenError. */
  open(): Promise<this> {
    const { host, port } = this.#options;
    return new Promise((resolve, reject) => {
      const failed = (cause: Error) => {
        this.#sockets.stop();
        reject(new ListenError('address_unavailable', `Cannot listen on ${host}:${port}.`, { cause }));
      };
      this.#server.once('error', failed);
      this.#server.listen(port, host, () => {
        this.#server.off('error', failed);
        resolve(this);
      });
    });
  }

  close(graceMs: number, lingerMs = 0): Promise<void> {
    this.#end ??= this.#finish(graceMs, lingerMs);
    return this.#end;
  }

  #request(message: IncomingMessage, response: ServerResponse): void {
    // Node's parser goes on with what stands behind a request that was refused: that is no request.
    if (this.#refused.has(message.socket)) return;
    const target = targetOf(message);
    const request = new NodeRequest(message, target);
    this.#running += 1;
    response.once('close', () => {
      if (!response.writableFinished) request.abort();
      this.#ended();
    });
    const refusal = this.#refusal(message, target);
    if (refusal !== undefined) {
      this.#refused.add(message.socket);
      writeReply(response, refusal, false, true);
      return;
    }
    if (message.method === 'GET' && asksForWebSocket(request.header('upgrade'))) {
      // Node hands heads with `Connection: upgrade` to `upgrade`; this one has none.
      writeReply(response, upgradeProblem((name) => request.header(name)) ?? badRequest, false, true);
      return;
    }
    try {
      const answer = this.#options.onRequest(request);
      if (!isPromise(answer)) {
        this.#answer(request, response, answer);
        return;
      }
      answer.then(
        (reply) => this.#answer(request, response, reply),
        () => this.#answer(request, response, internalError),
      );
    } catch {
      this.#answer(request, response, internalError);
    }
  }

  #refusal(message: IncomingMessage, target: string | undefined): HttpReply | undefined {
    if (!limits.METHODS.has(message.method ?? '')) return unknownMethod;
    if (message.rawHeaders.length > limits.MAX_HEADERS * 2) return headTooLarge;
    const coding = message.headers['transfer-encoding'];
    if (coding !== undefined && coding.toLowerCase() !== 'chunked') return badRequest;
    return target?.startsWith('/') ? undefined : badRequest;
  }

  #answer(request: NodeRequest, response: ServerResponse, reply: HttpAnswer): void {
    if (request.gone) {
      dropStream(reply);
      return;
    }
    const sound = soundReply(reply);
    if (request.unread)
      request.discard(
        (whole) => this.#write(request, response, sound, !whole),
        () => dropStream(sound),
      );
    else this.#write(request, response, sound, false);
  }

  #write(request: NodeRequest, response: ServerResponse, reply: HttpAnswer, cutOff: boolean): void {
    const head = request.method === 'HEAD';
    const closing = cutOff || this.#closing;
    if (!('source' in reply)) writeReply(response, reply, head, closing);
    else if (head) {
      dropStream(reply);
      writePushHead(response, reply, closing);
      response.end();
    } else {
      const onFault = (error: unknown) => this.#options.onFault?.(error);
      new NodePush(response, reply, () => cutOff || this.#closing, onFault).begin();
    }
  }

  #upgrade(message: IncomingMessage, socket: Duplex, head: Buffer): void {
    const target = targetOf(message);
    const waiting = new PendingUpgrade(message, socket, head, target);
    if (message.method !== 'GET' || !asksForWebSocket(waiting.request.header('upgrade'))) {
      this.#noUpgrade(message, waiting);
      return;
    }
    const refusal = this.#refusal(message, target) ?? upgradeProblem((name) => waiting.request.header(name));
    if (refusal !== undefined || waiting.hasBody) {
      waiting.refuse(refusal ?? badRequest);
      return;
    }
    this.#running += 1;
    this.#pending.add(waiting);
    const settle = (answer: UpgradeAnswer) => {
      if ('refuse' in answer) waiting.refuse(soundReply(answer.refuse));
      else if (this.#closing) waiting.refuse(closingReply);
      else waiting.accept((early) => this.#sockets.accept(message, socket, early, answer.accept, answer.watch));
    };
    Promise.resolve()
      .then(() => this.#options.onUpgrade(waiting.request))
      .then(settle)
      .catch(() => waiting.refuse(internalError))
      .finally(() => {
        this.#pending.delete(waiting);
        this.#ended();
      });
  }

  /** An upgrade to something else is not taken up (RFC 9110, 7.8): the answer is as if it had not been asked for. */
  #noUpgrade(message: IncomingMessage, waiting: PendingUpgrade): void {
    // Node has stopped parsing this connection, so a body cannot be read.
    if (waiting.hasBody) waiting.refuse(badRequest);
    else this.#request(message, waiting.response());
  }

  /** What node could not parse, or what did not arrive in time. */
  #malformed(error: Error, socket: Duplex): void {
    const reply = refusalOf('code' in error ? error.code : undefined);
    if (!socket.writable || ('code' in error && error.code === 'ECONNRESET')) return void socket.destroy();
    const body = String(reply.body);
    const head = [...reply.headers, ['content-length', body.length], ['connection', 'close']].map((h) => h.join(': '));
    const lines = [`HTTP/1.1 ${statusLine(reply.status)}`, `date: ${new Date().toUTCString()}`, ...head];
    socket.end(`${lines.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy());
  }

  #ended(): void {
    this.#running -= 1;
    if (this.#running === 0) this.#idle.wake();
  }

  async #finish(graceMs: number, lingerMs: number): Promise<void> {
    this.#closing = true;
    // Of its own, `close` of node:http ends connections that are idle.
    const closed = new Promise<void>((resolve) => {
      if (lingerMs === 0) this.#server.close(() => resolve());
      else TcpServer.prototype.close.call(this.#server, () => resolve());
    });
    await this.#sockets.closeAll(1001, 'server is closing', Math.min(graceMs, limits.GOODBYE_MS));
    if (lingerMs > 0) {
      const ended = new AbortController();
      void closed.then(() => ended.abort());
      await delay(lingerMs, undefined, { signal: ended.signal }).catch(() => undefined);
    }
    if (this.#running > 0) {
      this.#idle.reset();
      await this.#idle.wait(graceMs);
    }
    for (const waiting of this.#pending) waiting.destroy();
    this.#sockets.stop();
    this.#server.closeAllConnections();
    await closed;
  }
}

/**
 * An upgrade request on node:http that waits for its answer. Node hands the raw connection over with it, so this reads
 * on: that is how it hears that the client left, and why early frames are held.
 */
class PendingUpgrade {
  readonly request: NodeRequest;
  readonly #message: IncomingMessage;
  readonly #socket: Duplex;
  #early: Buffer;
  #over = false;

  /** `head`: bytes that followed the request. `target`: its path and query. */
  constructor(message: IncomingMessage, socket: Duplex, head: Buffer, target?: string) {
    this.#message = message;
    this.#socket = socket;
    this.#early = head;
    this.request = new NodeRequest(message, target);
    socket.on('error', () => undefined);
    socket.on('data', this.#hold).once('end', this.#left).once('close', this.#left);
  }

  /** Whether the head announces a body, which an upgrade request cannot have here. */
  get hasBody(): boolean {
    const { headers } = this.#message;
    return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) !== 0;
  }

  /** Gives the connection away with the bytes that came early, unless the client left. */
  accept(take: (early: Buffer) => void): void {
    if (!this.#settle()) return;
    // Still flowing: whoever takes the connection listens before this turn of the loop ends.
    if (this.#socket.isPaused()) this.#socket.resume();
    take(this.#early);
  }

  /** Answers with a plain reply and ends the connection, unless the client left. */
  refuse(reply: HttpAnswer): void {
    if ('source' in reply) {
      dropStream(reply);
      return;
    }
    if (!this.request.gone && !this.#over) writeReply(this.response(), reply, false, true);
  }

  /** A reply on the connection, which ends with it. */
  response(): ServerResponse {
    this.#over = true;
    this.#socket.off('data', this.#hold).off('end', this.#left).off('close', this.#left).resume();
    const response = new ServerResponse(this.#message);
    response.shouldKeepAlive = false;
    response.assignSocket(this.#message.socket);
    response.once('finish', () => this.#socket.end(() => this.#socket.destroy()));
    return response;
  }

  /** Cuts the connection. */
  destroy(): void {
    this.#socket.destroy();
  }

  #settle(): boolean {
    if (this.#over || this.request.gone) return false;
    this.#over = true;
    this.#socket.off('data', this.#hold).off('end', this.#left).off('close', this.#left);
    return true;
  }

  readonly #hold = (chunk: Buffer) => {
    this.#early = Buffer.concat([this.#early, chunk]);
    if (this.#early.length > limits.EARLY_FRAME_BYTES) this.#socket.pause();
  };

  readonly #left = () => {
    this.request.abort();
    this.#socket.destroy();
  };
}

/** Opens a server on node:http and ws. Rejects with ListenError. */
export function listenNode(options: HttpServerOptions): Promise<HttpServer> {
  return new NodeServer(options).open();
}
