import { constants } from 'node:os';

/** The name of a signal on this kind of machine, as `SIGHUP`. */
export function signalName(number: number): string {
  return Object.entries(constants.signals).find(([, value]) => value === number)?.[0] ?? `SIG${number}`;
}
