import pg from 'pg';
import { CodedError } from '../lib/errors.ts';

/**
 * What went wrong in storage, for callers that must decide:
 * - `unavailable`: no server, no free connection, or the server refuses work for now; try again later
 * - `conflict`: lost against another transaction (serialization failure, deadlock) after the retries; try again
 * - `constraint`: a constraint said no; `constraint` has its name
 * - `invalid`: a value the database cannot hold (NUL in text, number out of range, bad JSON)
 * - `timeout`: the statement took longer than allowed and was cancelled
 * - `internal`: everything else; a defect of ours
 */
export type StorageErrorCode = 'unavailable' | 'conflict' | 'constraint' | 'invalid' | 'timeout' | 'internal';

/** The one error storage rejects with. The message never holds values of a row. */
export class StorageError extends CodedError<StorageErrorCode> {
  /** Name of the violated constraint; only with code `constraint`. */
  readonly constraint: string | undefined;
  /** SQLSTATE as the server sent it; undefined for errors of the network or of our own. */
  readonly sqlState: string | undefined;
  constructor(
    code: StorageErrorCode,
    message: string,
    options: { cause?: unknown; constraint?: string | undefined; sqlState?: string | undefined } = {},
  ) {
    super(code, message, options);
    this.constraint = options.constraint;
    this.sqlState = options.sqlState;
  }
}

/** Whether `error` is a violation of the constraint `name` (any constraint when no name is given). */
export function isConstraint(error: unknown, name?: string): boolean {
  return (
    error instanceof StorageError && error.code === 'constraint' && (name === undefined || error.constraint === name)
  );
}

// PostgreSQL documentation, appendix A. Exact states first, then classes (first two characters).
const byState: Readonly<Record<string, StorageErrorCode>> = {
  '25006': 'unavailable', // read-only after a failover
  '25P03': 'timeout', // idle in transaction
  '40001': 'conflict',
  '40P01': 'conflict',
  '55P03': 'timeout', // lock not available
  '57014': 'timeout', // statement timeout
};
const byClass: Readonly<Record<string, StorageErrorCode>> = {
  '08': 'unavailable',
  '22': 'invalid',
  '23': 'constraint',
  '28': 'unavailable',
  '3D': 'unavailable',
  '53': 'unavailable',
  '57': 'unavailable',
  '58': 'unavailable',
};

/**
 * Whether a prepared statement was refused because a migration changed its result since. It did nothing, and another
 * connection prepares it anew.
 */
export function isStalePlan(error: unknown): boolean {
  const found = error instanceof StorageError ? error.cause : error;
  return (
    found instanceof pg.DatabaseError &&
    found.code === '0A000' &&
    found.message === 'cached plan must not change result type'
  );
}

// pg reports these as plain errors with a sentence only.
const LOST_CONNECTION = [
  'Connection terminated',
  'timeout exceeded when trying to connect',
  'Client has encountered a connection error',
  'Client was closed',
  'Cannot use a pool after',
  'Connection ended',
  'timeout expired',
  'The server does not support',
];

/** Turns whatever `pg` or the network threw into a StorageError; a StorageError comes back unchanged. */
export function toStorageError(error: unknown): StorageError {
  if (error instanceof StorageError) return error;
  if (error instanceof pg.DatabaseError && error.code !== undefined) {
    const state = error.code;
    const code = isStalePlan(error) ? 'conflict' : (byState[state] ?? byClass[state.slice(0, 2)] ?? 'internal');
    return new StorageError(code, error.message, { cause: error, constraint: error.constraint, sqlState: state });
  }
  if (error instanceof Error) {
    if (error.message === 'Query read timeout') {
      return new StorageError('timeout', 'The database did not answer in time.', { cause: error });
    }
    const networkError = 'syscall' in error || 'errno' in error;
    if (
      networkError ||
      error instanceof AggregateError ||
      LOST_CONNECTION.some((text) => error.message.startsWith(text))
    ) {
      return new StorageError('unavailable', `The database cannot be reached: ${error.message || error.name}`, {
        cause: error,
      });
    }
    return new StorageError('internal', error.message, { cause: error });
  }
  return new StorageError('internal', 'The database failed.', { cause: error });
}
