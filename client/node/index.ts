/** `troupe/client/node`: the transport of Node, with an authority of the platform's own and names below .localhost. */

import { lookup as systemLookup } from 'node:dns';
import { Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http';
import type { Agent as HttpsAgent } from 'node:https';
import type { LookupFunction } from 'node:net';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { WebSocket } from 'ws';
import { errorOf, TroupeError } from '../errors.ts';
import type {
  ClientTransport,
  SocketListener,
  TransportAnswer,
  TransportRequest,
  TransportSocket,
} from '../transport.ts';

/** The server pings every 25 s: past this without a sign of it, ms, the connection is lost. */
const SILENCE_MS = 60_000;
const CONNECT_MS = 15_000;
/** After a connection broke while it was sent to, ms: its answer may still come. */
const ANSWER_MS = 500;
/** No answer of the platform is as large, unless it is a log or a file. */
const MOST_BYTES = 64 * 1024 * 1024;

/** TLS takes as long to load as a short command takes: only requests over it do. */
const https = () => process.getBuiltinModule('node:https');
const requestOf = (protocol: string) => (protocol === 'http:' ? requestHttp : https().request);

interface NodeTransportOptions {
  /** PEM of the authority that signed the platform's certificate, and no other; without it, those that Node trusts. */
  readonly authority?: string | undefined;
  readonly userAgent?: string;
  /** Longest answer that is taken, bytes; 64 MiB unless given. */
  readonly mostBytes?: number;
}

/** Bytes that are sent: as many as `length`, which an archive need not know. */
export interface ByteRequest {
  readonly method: string;
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Readable;
  readonly length?: number | undefined;
}

/** An answer whose body comes as it is read. */
export interface ByteAnswer {
  readonly status: number;
  readonly body: Readable;
  header(name: string): string | undefined;
}

/** With requests whose bodies stream both ways, for files. */
interface NodeTransport extends ClientTransport {
  /** Rejects with TroupeError, also for an answer that is no success. */
  stream(request: ByteRequest): Promise<ByteAnswer>;
}

/** Requests and sockets of Node. Certificates are always checked. */
export function nodeTransport({
  authority,
  userAgent,
  mostBytes = MOST_BYTES,
}: NodeTransportOptions = {}): NodeTransport {
  const tls = { lookup, ...(authority === undefined ? undefined : { ca: authority }) };
  const plainAgent = new HttpAgent({ keepAlive: true });
  let tlsAgent: HttpsAgent | undefined;
  const agentOf = (protocol: string): HttpAgent => {
    if (protocol === 'http:') return plainAgent;
    tlsAgent ??= new (https().Agent)({ keepAlive: true });
    return tlsAgent;
  };
  const agent = userAgent === undefined ? {} : { 'user-agent': userAgent };
  return {
    socketHeaders: true,
    send: ({ method, url, headers, body, signal }: TransportRequest) =>
      new Promise((resolve, reject) => {
        const { protocol } = new URL(url);
        const fail = (cause: Error) => reject(signal.aborted ? signal.reason : connectionError(cause, url));
        const all: Record<string, string | number> = { ...agent, ...headers };
        // Node sends the body of a DELETE without a word on its length, which ends it before it begins.
        if (body !== undefined) all['content-length'] = Buffer.byteLength(body);
        const options = { ...tls, method, signal, headers: all, agent: agentOf(protocol) };
        const request = requestOf(protocol)(url, options);
        request.on('error', fail);
        request.on('response', (response) => void readAnswer(response, mostBytes).then(resolve, fail));
        request.end(body);
      }),
    stream: ({ method, url, headers, body, length }) =>
      new Promise((resolve, reject) => {
        const all = { ...agent, ...headers, ...(length === undefined ? undefined : { 'content-length': length }) };
        // A connection of its own: an answer that comes before all was sent leaves it in the middle of a request.
        const request = requestOf(new URL(url).protocol)(url, { ...tls, method, headers: all, agent: false });
        const fail = (cause: Error) => {
          body?.destroy();
          reject(cause instanceof TroupeError ? cause : connectionError(cause, url));
        };
        request.on('error', fail);
        request.on('response', (response) => {
          const { statusCode: status = 0 } = response;
          if (status < 300) return resolve({ status, body: response, header: headerOf(response) });
          const refused = ({ body: text, header }: TransportAnswer) => {
            request.destroy();
            fail(errorOf(status, text, header));
          };
          readAnswer(response).then(refused, fail);
        });
        if (body === undefined) request.end();
        // An answer that came first says why the connection broke.
        else pipeline(body, request).catch((cause: Error) => setTimeout(() => fail(cause), ANSWER_MS).unref());
      }),
    connect(url, headers, listener) {
      const socket = new WsSocket(listener);
      void socket.open(url, { ...tls, headers: { ...agent, ...headers } });
      return socket;
    },
  };
}

class WsSocket implements TransportSocket {
  readonly #listener: SocketListener;
  #socket: WebSocket | undefined;
  #silence: NodeJS.Timeout | undefined;
  #isOver = false;
  #isHeld = false;

  constructor(listener: SocketListener) {
    this.#listener = listener;
  }

  async open(url: string, options: object): Promise<void> {
    // Only programs that follow something load it.
    const { WebSocket } = await import('ws');
    if (this.#isOver) return;
    const socket = new WebSocket(url, { ...options, handshakeTimeout: CONNECT_MS, perMessageDeflate: false });
    this.#socket = socket;
    let failure = '';
    socket.on('open', () => {
      this.#alive();
      this.#listener.opened();
    });
    socket.on('ping', () => this.#alive());
    socket.on('message', (data, isBinary) => {
      this.#alive();
      const bytes = Array.isArray(data) ? Buffer.concat(data) : data instanceof ArrayBuffer ? Buffer.from(data) : data;
      if (isBinary) this.#listener.binary(bytes);
      else this.#listener.text(bytes.toString('utf8'));
    });
    socket.on('error', (error) => {
      failure = connectionError(error, url).message;
    });
    socket.on('unexpected-response', (_, response) => {
      const connection = response.socket;
      const refused = (answer?: TransportAnswer) => {
        // The connection outlives a request that has its answer.
        connection.destroy();
        this.#closed(1006, '', answer);
      };
      void readAnswer(response).then(refused, () => refused());
    });
    socket.on('close', (code, reason) => this.#closed(code, reason.toString('utf8') || failure));
  }

  send(data: string | Uint8Array): void {
    this.#socket?.send(data);
  }

  close(code = 1000): void {
    this.#isOver = true;
    clearTimeout(this.#silence);
    if (this.#socket === undefined) return;
    this.#socket.close(code);
    // A server that does not answer the closing handshake should not keep the program.
    const socket = this.#socket;
    setTimeout(() => socket.terminate(), 2000).unref();
  }

  get waitingBytes(): number {
    return this.#socket?.bufferedAmount ?? 0;
  }

  hold(isHeld: boolean): void {
    this.#isHeld = isHeld;
    if (isHeld) this.#socket?.pause();
    else this.#socket?.resume();
    this.#alive();
  }

  #alive(): void {
    clearTimeout(this.#silence);
    // Pings are not seen while it is held.
    if (!this.#isOver && !this.#isHeld) this.#silence = setTimeout(() => this.#socket?.terminate(), SILENCE_MS);
  }

  #closed(code: number, reason: string, answer?: TransportAnswer): void {
    clearTimeout(this.#silence);
    if (this.#isOver) return;
    this.#isOver = true;
    this.#listener.closed(code, reason, answer);
  }
}

async function readAnswer(response: IncomingMessage, mostBytes = MOST_BYTES): Promise<TransportAnswer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response) {
    const data = Buffer.from(chunk);
    bytes += data.length;
    if (bytes > mostBytes) throw new Error('the answer is too long');
    chunks.push(data);
  }
  const { statusCode = 0 } = response;
  const body = Buffer.concat(chunks);
  return {
    status: statusCode,
    body: body.toString('utf8'),
    bytes: body,
    header: headerOf(response),
  };
}

function headerOf({ headers }: IncomingMessage): (name: string) => string | undefined {
  return (name) => {
    const value = headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  };
}

/** `localhost` and what is below it is this machine (RFC 6761), which not every resolver knows. */
const lookup: LookupFunction = (name, options, callback) => {
  if (!/(^|\.)localhost$/.test(name)) systemLookup(name, options, callback);
  else if (options.all) callback(null, [{ address: '127.0.0.1', family: 4 }]);
  else callback(null, '127.0.0.1', 4);
};

/** Codes of OpenSSL and Node for certificates that are not trusted, or not of this name. */
const UNTRUSTED = /CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS/;

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'there is no such name',
  EAI_AGAIN: 'the name cannot be looked up now',
  ETIMEDOUT: 'it does not answer',
  ECONNRESET: 'the connection broke',
  EHOSTUNREACH: 'there is no way to it',
  ENETUNREACH: 'there is no way to it',
};

function connectionError(cause: Error, url: string): TroupeError {
  const { host } = new URL(url);
  const code = 'code' in cause ? String(cause.code) : '';
  if (UNTRUSTED.test(code))
    return new TroupeError('untrusted', `The certificate of ${host} is not trusted: ${cause.message}.`, { cause });
  const reason = REASONS[code] ?? (cause.message || code);
  return new TroupeError('unreachable', `${host} cannot be reached: ${reason}.`, { cause });
}
