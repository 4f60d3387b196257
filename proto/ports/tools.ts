/** Tools for programs that act for people, as the service that is asked for them sees them. */
import type { Readable } from 'node:stream';

/** A message of the protocol, and who sent it. */
export interface ToolRequest {
  /** What the tools call the platform with. */
  readonly token: string;
  /** The client's. */
  readonly address: string;
  readonly message: Readonly<Record<string, unknown>>;
  /** A header of the request by lower-case name. */
  header(name: string): string | undefined;
  /** Aborted when the client leaves. */
  readonly signal: AbortSignal;
}

/** What a message is answered with. */
export interface ToolReply {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly bytes: Readable;
}

/** Answers messages, each for itself. */
export interface ToolServer {
  answer(request: ToolRequest): Promise<ToolReply>;
}
