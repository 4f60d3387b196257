/** A signal of several, until it is let go of. */
interface AnySignal {
  readonly signal: AbortSignal;
  /** It hears the others no more. Again does nothing. */
  release(): void;
}

/**
 * Aborts with the first of `signals`. `AbortSignal.any` would do, but of each that it made a signal that lives on keeps
 * a trace for ever, and calls are many.
 */
export function anySignal(signals: readonly AbortSignal[]): AnySignal {
  const controller = new AbortController();
  const listeners = signals.map((signal) => {
    const listener = (): void => controller.abort(signal.reason);
    if (signal.aborted) listener();
    else signal.addEventListener('abort', listener, { once: true });
    return () => signal.removeEventListener('abort', listener);
  });
  return {
    signal: controller.signal,
    release: () => {
      for (const remove of listeners) remove();
    },
  };
}
