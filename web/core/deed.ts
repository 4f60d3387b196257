/** Something that a person asked for: under way, refused, done. */
import { useSignal } from '@preact/signals';
import type { TroupeError } from '../../client/index.ts';
import { sentenceOf } from './format.ts';
import { asTroupeError } from './platform.ts';

/** A deed, and how to do it. */
export interface Deed<A extends readonly unknown[]> {
  readonly isBusy: boolean;
  readonly error: TroupeError | undefined;
  /** Does it, unless it is under way. Resolves with whether it succeeded. */
  run(...input: A): Promise<boolean>;
  /** Forgets the error. */
  clear(): void;
}

/** `work` rejects with TroupeError where it is refused. */
export function useDeed<A extends readonly unknown[]>(work: (...input: A) => Promise<unknown>): Deed<A> {
  const isBusy = useSignal(false);
  const error = useSignal<TroupeError | undefined>(undefined);
  return {
    isBusy: isBusy.value,
    error: error.value,
    clear: () => {
      error.value = undefined;
    },
    run: async (...input) => {
      if (isBusy.value) return false;
      isBusy.value = true;
      error.value = undefined;
      try {
        await work(...input);
        return true;
      } catch (cause) {
        error.value = asTroupeError(cause);
        return false;
      } finally {
        isBusy.value = false;
      }
    },
  };
}

/** What was said of one field of a form, by its path at the server. */
export function fieldError(error: TroupeError | undefined, ...paths: readonly string[]): string | undefined {
  const found = error?.fields.find(({ path }) =>
    paths.some((wanted) => path === wanted || path.startsWith(`${wanted}.`)),
  );
  return found === undefined ? undefined : sentenceOf(found.message);
}

/** For what is to go: gone elsewhere is gone, too. */
export function unlessGone(cause: unknown): void {
  if (asTroupeError(cause).status !== 404) throw cause;
}
