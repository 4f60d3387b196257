/** What a screen asks for once it is shown: loading, there, or failed. */
import { type Signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { TroupeError } from '../../client/index.ts';
import { asTroupeError, noteRefusal } from './platform.ts';
import { session } from './session.ts';

/** How far it is. `value` stays while it is asked for again. */
export interface LoadedData<T> {
  readonly value: T | undefined;
  readonly error: TroupeError | undefined;
  readonly isLoading: boolean;
  /** Asks again. */
  reload(): void;
  /** Puts something in its place that is known to be newer. */
  set(value: T): void;
}

/**
 * Calls `load` when the screen is shown, when a key changes, and after a login over the page. An answer that comes too
 * late is dropped.
 */
export function useLoaded<T>(load: (signal: AbortSignal) => Promise<T>, keys: readonly unknown[] = []): LoadedData<T> {
  const value: Signal<T | undefined> = useSignal(undefined);
  const error: Signal<TroupeError | undefined> = useSignal(undefined);
  const isLoading = useSignal(true);
  const round = useSignal(0);
  const isEnded = session.value.state === 'ended';
  useEffect(() => {
    // The login over the page comes first; what was asked for is asked for again after it.
    if (isEnded) return;
    const ended = new AbortController();
    isLoading.value = true;
    load(ended.signal).then(
      (loaded) => {
        if (ended.signal.aborted) return;
        value.value = loaded;
        error.value = undefined;
        isLoading.value = false;
      },
      (cause) => {
        if (ended.signal.aborted) return;
        noteRefusal(cause);
        error.value = asTroupeError(cause);
        isLoading.value = false;
      },
    );
    return () => ended.abort();
  }, [round.value, isEnded, ...keys]);
  return {
    value: value.value,
    error: error.value,
    isLoading: isLoading.value,
    reload: () => {
      round.value++;
    },
    set: (newer) => {
      value.value = newer;
    },
  };
}
