/**
 * What the gateway needs of ssh2 (1.17.0, pinned) that has no public name there. Its shape is checked at each use, so
 * that another version fails loudly and in one place.
 */
import type { Channel, Client, Connection } from 'ssh2';
import { string, uint32 } from '../../ssh/keys.ts';
import { CLIENT_SIGNATURES, OFFERED } from './handshake.ts';

type SshHandler = (...args: unknown[]) => void;
type OnPayload = (payload: Buffer) => unknown;

interface Protocol {
  /** Set while keys are exchanged: packets are queued meanwhile. */
  readonly _kexinit: unknown;
  readonly _queue: readonly unknown[] | undefined;
  readonly _kex: { remoteExtInfoEnabled: boolean } | undefined;
  readonly _cipher: { encrypt(packet: Buffer): void };
  readonly _packetRW: {
    readonly write: {
      readonly allocStart: number;
      readonly allocStartKEX: number;
      alloc(size: number, force?: boolean): Buffer;
      finalize(packet: Buffer, force?: boolean): Buffer;
    };
  };
  readonly _handlers: Record<string, SshHandler | undefined>;
  readonly _decipher: { _onPayload: OnPayload };
  _onPayload: OnPayload;
  _onHandshakeComplete: (...args: unknown[]) => void;
  rekey(): void;
  channelClose(remoteId: number): void;
  channelOpenFail(remoteId: number, reason: number, text: string): void;
  openssh_authAgent(localId: number, window: number, packetSize: number): void;
}

interface Peer {
  readonly _protocol: Protocol;
  readonly _chanMgr: { readonly _count: number; add(value?: unknown): number; remove(id: number): void };
}

interface ChannelEnd {
  readonly id: number;
  readonly window: number;
  readonly state: string;
}

/** One end of an SSH connection, ours. */
export type SshPeer = Client | Connection;

/** Messages (RFC 4250 section 4.1.2). */
const DISCONNECT = 1;
const EXT_INFO = 7;
const KEXINIT = 20;
const USERAUTH_BANNER = 53;
const CHANNEL_REQUEST = 98;
/** A channel that cannot be opened for want of resources (RFC 4254 section 5.1). */
const RESOURCE_SHORTAGE = 4;
/** What ssh2 itself grants a channel. */
const WINDOW = 2 * 1024 * 1024;
const PACKET = 32 * 1024;

function isPeer(value: unknown): value is Peer {
  if (typeof value !== 'object' || value === null || !('_protocol' in value) || !('_chanMgr' in value)) return false;
  const { _protocol: protocol, _chanMgr: channels } = value;
  return (
    typeof protocol === 'object' &&
    protocol !== null &&
    ['_kexinit', '_queue', '_kex', '_cipher', '_packetRW', '_handlers', '_onPayload', '_onHandshakeComplete'].every(
      (name) => name in protocol,
    ) &&
    typeof channels === 'object' &&
    channels !== null &&
    '_count' in channels
  );
}

function inside(peer: SshPeer): Peer {
  const value: unknown = peer;
  if (!isPeer(value)) throw new TypeError('This is not the version of ssh2 that the gateway was written for.');
  return value;
}

function endOf(value: unknown): ChannelEnd {
  const isEnd = (end: unknown): end is ChannelEnd =>
    typeof end === 'object' && end !== null && 'id' in end && 'window' in end && 'state' in end;
  if (!isEnd(value)) throw new TypeError('This is not the version of ssh2 that the gateway was written for.');
  return value;
}

/** Our number of a channel. */
export const localId = (channel: Channel): number => endOf(channel.incoming).id;

/** Bytes that may be sent into a channel now; none once it takes no more. */
export function windowOf(channel: Channel): number {
  const { state, window } = endOf(channel.outgoing);
  return state === 'open' ? window : 0;
}

/** Whether data may still be sent into a channel. */
export const takesData = (channel: Channel): boolean => endOf(channel.outgoing).state === 'open';

/** Channels open or being opened. */
const channelCount = (peer: SshPeer): number => inside(peer)._chanMgr._count;

/** Whether keys are being exchanged: what is sent now waits in memory. */
export const isExchanging = (peer: SshPeer): boolean => inside(peer)._protocol._kexinit !== undefined;

/** Begins to exchange keys anew. */
export const exchangeKeys = (peer: SshPeer): void => inside(peer)._protocol.rekey();

/** Packets that wait for the end of a key exchange. */
export const queuedPackets = (peer: SshPeer): number => inside(peer)._protocol._queue?.length ?? 0;

/** Calls `listener` after ssh2 has dealt with each message of a kind, with the channel's number (ours). */
export function afterMessage(
  peer: SshPeer,
  name: 'CHANNEL_WINDOW_ADJUST' | 'CHANNEL_CLOSE',
  listener: (localId: number) => void,
): void {
  const handlers = inside(peer)._protocol._handlers;
  const original = handlers[name];
  handlers[name] = (...args) => {
    original?.(...args);
    const [, recipient] = args;
    if (typeof recipient === 'number') listener(recipient);
  };
}

/** Refuses channels that would be more than `most`. */
export function limitChannels(peer: SshPeer, most: number): void {
  onOpen(peer, (info, sender) => {
    if (channelCount(peer) < most) return info;
    inside(peer)._protocol.channelOpenFail(sender, RESOURCE_SHORTAGE, `There are ${most} channels already.`);
    return undefined;
  });
}

/**
 * Agent channels that a container opens come as the client's event `x11`, for ssh2 would join them with an agent of its
 * own and without a bound. `isGranted` says whether they may come at all; X11 itself never may.
 */
export function agentAsEvent(container: Client, isGranted: () => boolean): void {
  Object.defineProperty(container, '_acceptX11', { value: 1 });
  onOpen(container, (info) => {
    if (info.type === 'auth-agent@openssh.com' && isGranted()) return { ...info, type: 'x11' };
    return info.type === 'x11' ? { ...info, type: 'refused' } : info;
  });
}

function onOpen(peer: SshPeer, change: (info: { readonly type: unknown }, sender: number) => object | undefined): void {
  const handlers = inside(peer)._protocol._handlers;
  const original = handlers.CHANNEL_OPEN;
  handlers.CHANNEL_OPEN = (protocol, info, ...rest) => {
    if (typeof info !== 'object' || info === null || !('type' in info) || !('sender' in info)) return;
    const changed = change(info, Number(info.sender));
    if (changed !== undefined) original?.(protocol, changed, ...rest);
  };
}

/** Opens a channel to the agent of a client that forwards it. */
export function openAgent(client: Connection, opened: (error: Error | undefined, channel: Channel) => void): void {
  const { _chanMgr, _protocol } = inside(client);
  const wrapper = Object.assign((error: Error | undefined, channel: Channel) => opened(error, channel), {
    type: 'auth-agent@openssh.com',
  });
  const id = _chanMgr.add(wrapper);
  _protocol.openssh_authAgent(id, WINDOW, PACKET);
}

/** Closes a session in which nothing was started: ssh2 would leave that to the client's end. */
export function closeUnstarted(client: Connection, session: object): void {
  if (!('_chanInfo' in session) || typeof session._chanInfo !== 'object' || session._chanInfo === null) return;
  const info = session._chanInfo;
  if (!('incoming' in info) || !('outgoing' in info)) return;
  const { _chanMgr, _protocol } = inside(client);
  _protocol.channelClose(endOf(info.outgoing).id);
  _chanMgr.remove(endOf(info.incoming).id);
}

/** What a request said that ssh2 does not hand on as it came. */
export interface RawRequest {
  /** The command of an `exec` (RFC 4254 section 6.5): ssh2 makes text of it. */
  readonly command?: Buffer;
  /** The encoded modes of a `pty-req` (RFC 4254 section 8): ssh2 skips their first byte, and so all of them. */
  readonly modes?: Buffer;
}

/** What is raw about the request that is being dealt with. To be called when a client has sent its identification. */
export function rawRequests(client: Connection): () => RawRequest {
  const protocol = inside(client)._protocol;
  const original = protocol._onPayload;
  let request: RawRequest = {};
  // Taken over by the ciphers of the first key exchange, which is yet to come.
  protocol._onPayload = (payload) => {
    request = payload[0] === CHANNEL_REQUEST ? readRequest(payload) : {};
    return original(payload);
  };
  return () => request;
}

/** Reads a CHANNEL_REQUEST; nothing of one that is neither of the two, or is cut off. */
export function readRequest(payload: Buffer): RawRequest {
  const name = readString(payload, 5);
  if (name === undefined) return {};
  const at = 5 + 4 + name.length + 1;
  switch (name.toString('latin1')) {
    case 'exec': {
      const command = readString(payload, at);
      return command === undefined ? {} : { command: Buffer.from(command) };
    }
    case 'pty-req': {
      const term = readString(payload, at);
      const modes = term === undefined ? undefined : readString(payload, at + 4 + term.length + 16);
      return modes === undefined ? {} : { modes: Buffer.from(modes) };
    }
    default:
      return {};
  }
}

/**
 * Lets clients guess (RFC 4253 section 7): ssh2 throws away the packet of a right guess too, and both would wait for
 * ever; dropbear always guesses. To be called when a client has sent its identification.
 */
export function allowGuesses(client: Connection): void {
  const protocol = inside(client)._protocol;
  const decipher = protocol._decipher;
  const original = decipher._onPayload;
  let isRight = false;
  let skips = false;
  decipher._onPayload = (payload) => {
    if (payload[0] === KEXINIT) isRight = isRightGuess(payload);
    return original(payload);
  };
  Object.defineProperty(protocol, '_skipNextInboundPacket', {
    get: () => skips,
    set: (value: boolean) => {
      skips = value && !isRight;
    },
  });
}

/** Whether a KEXINIT begins with the algorithms that we prefer, too: then what its sender guessed is right. */
export function isRightGuess(payload: Buffer): boolean {
  const kex = readString(payload, 17);
  if (kex === undefined) return false;
  const hostKey = readString(payload, 17 + 4 + kex.length);
  const first = (list: Buffer | undefined) => list?.toString('latin1').split(',', 1)[0];
  return first(kex) === OFFERED.kex[0] && first(hostKey) === OFFERED.serverHostKey[0];
}

function readString(payload: Buffer, at: number): Buffer | undefined {
  if (at + 4 > payload.length) return undefined;
  const end = at + 4 + payload.readUInt32BE(at);
  return end > payload.length ? undefined : payload.subarray(at + 4, end);
}

/** Says which signatures we take (RFC 8308): ssh2's own list lacks a comma, and names SHA-1. */
export function announceSignatures(client: Connection): void {
  const protocol = inside(client)._protocol;
  const original = protocol._onHandshakeComplete;
  let isFirst = true;
  protocol._onHandshakeComplete = (...args) => {
    const kex = protocol._kex;
    const wants = kex?.remoteExtInfoEnabled === true && isFirst;
    isFirst = false;
    if (kex !== undefined) kex.remoteExtInfoEnabled = false;
    original(...args);
    if (wants) send(protocol, EXT_INFO, [uint32(1), string('server-sig-algs'), string(CLIENT_SIGNATURES.join(','))]);
  };
}

/** Shows text to a person who is logging in (RFC 4252 section 5.4). */
export function banner(client: Connection, text: string): void {
  const lines = `${text.replace(/\r?\n/g, '\r\n')}\r\n`;
  send(inside(client)._protocol, USERAUTH_BANNER, [string(lines), string('')]);
}

/** Says goodbye with a reason (RFC 4253 section 11.1) that OpenSSH shows. The socket is the caller's to end. */
export function disconnect(client: Connection, code: number, text: string): void {
  const payload = Buffer.concat([Buffer.of(DISCONNECT), uint32(code), string(text), string('')]);
  const { _cipher, _packetRW } = inside(client)._protocol;
  // At once, even while keys are exchanged.
  const packet = _packetRW.write.alloc(payload.length, true);
  packet.set(payload, _packetRW.write.allocStartKEX);
  _cipher.encrypt(_packetRW.write.finalize(packet, true));
}

function send({ _cipher, _packetRW, _kexinit }: Protocol, type: number, parts: readonly Buffer[]): void {
  // Nothing that is sent here is worth a queue of our own while keys are exchanged.
  if (_kexinit !== undefined) return;
  const payload = Buffer.concat([Buffer.of(type), ...parts]);
  const packet = _packetRW.write.alloc(payload.length);
  packet.set(payload, _packetRW.write.allocStart);
  _cipher.encrypt(_packetRW.write.finalize(packet));
}

/** The socket that a client of the server came by. */
export function socketOf(client: Connection): unknown {
  return '_sock' in client ? client._sock : undefined;
}
