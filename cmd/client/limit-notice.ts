/** Why a command takes long: it waits for the platform's limit on changes. */
import type { ClientOptions } from '../../client/index.ts';
import { clean } from './clean.ts';
import type { Output } from './output.ts';

/** Shorter waits are not worth a line, ms. */
const UNNOTICED_MS = 3000;

/** Tells a person once, when the calls of a command have waited for some seconds in all. */
export function limitNotice(out: Pick<Output, 'json' | 'note'>): Pick<ClientOptions, 'onLimitWait'> {
  let totalMs = 0;
  let isSaid = false;
  return {
    onLimitWait({ waitMs, error }) {
      totalMs += waitMs;
      if (isSaid || out.json || totalMs < UNNOTICED_MS) return;
      isSaid = true;
      out.note(`Waiting: ${clean(error.message)}`);
    },
  };
}
