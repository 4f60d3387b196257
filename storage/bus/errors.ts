import { BusError } from '../../proto/ports/bus.ts';
import { StorageError } from '../errors.ts';

/** Runs `work`; a StorageError leaves as the BusError the bus promises: all but defects of ours pass with time. */
export async function asBus<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof StorageError) || error.code === 'internal') throw error;
    throw new BusError('unavailable', `The bus cannot store: ${error.message}`, { cause: error });
  }
}

/** The error for a stream nobody made. */
export function noStream(stream: string): BusError {
  return new BusError('no_stream', `There is no stream ${stream}.`);
}
