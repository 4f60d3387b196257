/**
 * What the incremental readers make of bytes that come in pieces: one value that a whole and a cut input must share.
 */

import { readResponseHead } from '../../../transports/gateway/h1/response-head.ts';
import { detect } from '../../../transports/gateway/tcp/first-bytes.ts';
import { MAX_CLIENT_HELLO, readClientHello } from '../../../transports/gateway/tls/client-hello.ts';
import { ChunkError, ChunkedReader } from '../../../transports/wire/h1/body.ts';
import { HeadBuffer, RequestReader } from '../../../transports/wire/h1/head-reader.ts';
import { readRequestHead } from '../../../transports/wire/h1/request-head.ts';

export const MAX_HEAD = 1024;

/** Heads: what was found, and how many bytes are left over. */
export function readHeads(pieces: readonly Buffer[]): string {
  const buffer = new HeadBuffer(MAX_HEAD);
  for (const [index, piece] of pieces.entries()) {
    const result = buffer.push(piece);
    if (result === undefined) continue;
    if (typeof result === 'string') return result === 'broken' || result === 'too_large' ? result : 'impossible';
    const rest = pieces.slice(index + 1).reduce((sum, { length }) => sum + length, piece.length - result.next);
    return JSON.stringify(
      [readRequestHead(result.text), readResponseHead(result.text, 'GET'), rest],
      (_key, value: unknown) => (value instanceof Set ? [...value] : value),
    );
  }
  return 'incomplete';
}

/** The first request: its head or its refusal, and how many bytes are left over. */
export function readRequest(pieces: readonly Buffer[]): string {
  const reader = new RequestReader();
  for (const [index, piece] of pieces.entries()) {
    const begin = reader.beginOf(piece);
    const result = begin === piece.length ? undefined : reader.push(piece, begin);
    if (result === undefined) continue;
    if ('refuse' in result) return result.refuse.body ?? '';
    const rest = pieces.slice(index + 1).reduce((sum, { length }) => sum + length, piece.length - result.next);
    return `${result.head.method} ${result.head.target} ${rest}`;
  }
  return 'incomplete';
}

/** A chunked body: its content, and how many bytes are left over. */
export function readChunks(pieces: readonly Buffer[]): string {
  const reader = new ChunkedReader();
  const body: Buffer[] = [];
  try {
    for (const [index, piece] of pieces.entries()) {
      const next = reader.read(piece, 0, (from, to) => body.push(piece.subarray(from, to)));
      if (!reader.isDone) continue;
      const rest = pieces.slice(index + 1).reduce((sum, { length }) => sum + length, piece.length - next);
      return `done ${Buffer.concat(body).toString('latin1')} ${rest}`;
    }
  } catch (error) {
    if (error instanceof ChunkError) return 'malformed';
    throw error;
  }
  return `more ${Buffer.concat(body).toString('latin1')}`;
}

/** A ClientHello of which more and more has come: the first decision counts. */
export function readHello(pieces: readonly Buffer[]): string {
  let come: Buffer = Buffer.alloc(0);
  for (const piece of pieces) {
    come = Buffer.concat([come, piece]);
    const result = readClientHello(come);
    if (result !== 'incomplete') return JSON.stringify(result);
    if (come.length > 2 * MAX_CLIENT_HELLO) return 'unbounded';
  }
  return 'incomplete';
}

/** The protocol of a connection. */
export function readProtocol(pieces: readonly Buffer[]): string {
  let come: Buffer = Buffer.alloc(0);
  for (const piece of pieces) {
    come = Buffer.concat([come, piece]);
    const result = detect(come);
    if (result !== 'undecided') return result;
  }
  return 'undecided';
}

/** Cuts `bytes` at places given as fractions of its length. */
export function cut(bytes: Buffer, fractions: readonly number[]): Buffer[] {
  const places = [...new Set(fractions.map((fraction) => Math.floor(fraction * bytes.length)))].sort((a, b) => a - b);
  return [...places, bytes.length].map((end, index) => bytes.subarray(places[index - 1] ?? 0, end));
}
