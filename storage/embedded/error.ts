/** Why no PostgreSQL of our own can run here. The message is for the person at the terminal and says what to do. */
export class EmbeddedError extends Error {
  readonly code: 'no_binaries' | 'no_user' | 'unreachable' | 'other_version' | 'not_a_cluster' | 'start_failed';
  constructor(code: EmbeddedError['code'], message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'EmbeddedError';
    this.code = code;
  }
}
