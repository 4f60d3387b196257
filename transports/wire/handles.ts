/**
 * The handles below sockets: internals of Node, so each thing is looked for before it is used, and a trial at the start
 * of a service (`trial.ts`) shows that they do what is expected. Without them everything goes by streams (`wires.ts`).
 */
import { type Server, Socket } from 'node:net';

/** A write or a shutdown under way. `oncomplete` is told its outcome: 0, or a negative error of libuv. */
export interface HandleRequest {
  oncomplete?: (this: HandleRequest, status: number) => void;
  /** Told by `oncomplete`. */
  wire?: { written(status: number): void; finished(status: number): void };
  /** Keeps the bytes alive while they are written. */
  buffer?: Buffer;
}

/** A connection of libuv, or TLS on one. Numbers that come back are 0 or a negative error of libuv. */
export interface Handle {
  /** Told of each read by `onread`. */
  wire?: { read(count: number): void };
  /** Told of each read: how much is in `internals.state`, what in the buffer that is used. */
  onread: (this: Handle) => void;
  useUserBuffer(buffer: Buffer): void;
  readStart(): number;
  readStop(): number;
  /** Whether the socket above has it read. */
  reading?: boolean;
  /** Bytes of a write that waits which have not left yet. */
  readonly writeQueueSize?: number;
  writeBuffer(request: HandleRequest, bytes: Buffer): number;
  writeLatin1String(request: HandleRequest, text: string): number;
  shutdown(request: HandleRequest): number;
  close(closed: () => void): void;
}

/** A TCP connection as a listening handle gives it. */
export interface TcpHandle extends Handle {
  setNoDelay(isOn: boolean): number;
  getpeername(out: { address?: string }): number;
  /** The request's `oncomplete` is told the outcome. */
  connect(request: HandleRequest, address: string, port: number): number;
  connect6(request: HandleRequest, address: string, port: number): number;
  /** Closes with RST. */
  reset(closed: () => void): number;
}

/** What is shared by all handles. */
interface Internals {
  readonly newWrite: () => HandleRequest;
  readonly newShutdown: () => HandleRequest;
  readonly newConnect: () => HandleRequest;
  /** A connection that is not connected: a `TcpHandle`, to be checked. */
  readonly newTcp: () => unknown;
  /** Facts of the last call: bytes read or an error at `readAt`; at `asyncAt` whether a write waits, 0 or 1. */
  readonly state: Int32Array;
  readonly readAt: number;
  readonly asyncAt: number;
  /** Whether the bytes of a write that waits are the caller's again: TLS has encrypted or copied them. */
  readonly keepsNothing: (handle: Handle) => boolean;
}

/** What is shared by all handles; undefined when this Node is not known, or its parts are not what they were. */
export const internals: Internals | undefined = findInternals();

function findInternals(): Internals | undefined {
  try {
    const binding: unknown = Reflect.get(process, 'binding');
    if (typeof binding !== 'function') return undefined;
    const { WriteWrap, ShutdownWrap, streamBaseState, kReadBytesOrError, kLastWriteWasAsync } = binding.call(
      process,
      'stream_wrap',
    );
    const { TCP, TCPConnectWrap, constants } = binding.call(process, 'tcp_wrap');
    const { TLSWrap } = binding.call(process, 'tls_wrap');
    if (
      typeof TCP !== 'function' ||
      typeof TCPConnectWrap !== 'function' ||
      typeof TLSWrap !== 'function' ||
      typeof constants?.SOCKET !== 'number' ||
      typeof WriteWrap !== 'function' ||
      typeof ShutdownWrap !== 'function' ||
      !(streamBaseState instanceof Int32Array) ||
      typeof kReadBytesOrError !== 'number' ||
      typeof kLastWriteWasAsync !== 'number'
    )
      return undefined;
    return {
      newWrite: () => new WriteWrap(),
      newShutdown: () => new ShutdownWrap(),
      newConnect: () => new TCPConnectWrap(),
      newTcp: () => new TCP(constants.SOCKET),
      state: streamBaseState,
      readAt: kReadBytesOrError,
      asyncAt: kLastWriteWasAsync,
      keepsNothing: (handle) => handle instanceof TLSWrap,
    };
  } catch {
    return undefined;
  }
}

const NEEDED = ['useUserBuffer', 'readStart', 'readStop', 'writeBuffer', 'writeLatin1String', 'shutdown', 'close'];

function isHandle(value: unknown): value is Handle {
  return typeof value === 'object' && value !== null && hasAll(value, NEEDED);
}

function isTcpHandle(value: unknown): value is TcpHandle {
  return isHandle(value) && hasAll(value, ['setNoDelay', 'getpeername', 'connect', 'connect6', 'reset']);
}

function hasAll(value: object, names: readonly string[]): boolean {
  return names.every((name) => typeof Reflect.get(value, name) === 'function');
}

/** A TCP connection to be connected, with the request for it. Throws where handles are not known. */
export function newTcpHandle(): { handle: TcpHandle; request: HandleRequest } {
  const handle = internals?.newTcp();
  if (internals === undefined || !isTcpHandle(handle)) throw new Error('This Node has no handles that are known.');
  return { handle, request: internals.newConnect() };
}

/** The handle of a socket that is connected, at rest and has not ended; else undefined. */
export function handleOf(socket: Socket): Handle | undefined {
  if (internals === undefined || socket.destroyed || socket.connecting || !socket.readable || !socket.writable)
    return undefined;
  if (socket.readableLength > 0 || socket.writableLength > 0) return undefined;
  const state: unknown = Reflect.get(socket, '_readableState');
  // The end may have been read, and not told yet.
  if (typeof state !== 'object' || state === null || Reflect.get(state, 'ended') !== false) return undefined;
  const handle: unknown = Reflect.get(socket, '_handle');
  return isHandle(handle) ? handle : undefined;
}

/**
 * A paused socket on a handle. It cannot read by itself any more, since `useUserBuffer` cannot be undone: only what
 * takes its handle over can, as TLS does.
 */
export function socketOn(handle: Handle): Socket {
  const options = { handle, allowHalfOpen: true, pauseOnCreate: true };
  return new Socket(options);
}

/** Has a listening server hand out handles instead of sockets; false when it cannot. An error is a number of libuv. */
export function takeHandles(server: Server, onHandle: (handle: TcpHandle) => void): boolean {
  const listening: unknown = Reflect.get(server, '_handle');
  if (internals === undefined || typeof listening !== 'object' || listening === null) return false;
  if (typeof Reflect.get(listening, 'onconnection') !== 'function') return false;
  return Reflect.set(listening, 'onconnection', (error: number, handle: unknown) => {
    // An accept that failed (no file descriptor left); the next may succeed.
    if (error !== 0) return;
    if (isTcpHandle(handle)) onHandle(handle);
  });
}
