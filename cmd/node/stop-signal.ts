/** The signal that ends a command which runs until it is told to stop. */

/**
 * Resolves `signalled` at the first SIGTERM or SIGINT, and `promise` `delayMs` later, or at the next of them: until
 * then balancers may find out. A second SIGINT after that ends the process at once. `forget` stops listening.
 */
export function stopSignal(delayMs = 0): {
  readonly signalled: Promise<void>;
  readonly promise: Promise<void>;
  received(): boolean;
  forget(): void;
} {
  let signal: () => void = () => {};
  let resolve: () => void = () => {};
  let [received, over] = [false, false];
  let timer: NodeJS.Timeout | undefined;
  const signalled = new Promise<void>((done) => {
    signal = done;
  });
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  const end = () => {
    over = true;
    clearTimeout(timer);
    resolve();
  };
  const onSignal = (name: NodeJS.Signals) => {
    if (over && name === 'SIGINT') process.exit(130);
    if (received || delayMs === 0) end();
    else timer = setTimeout(end, delayMs);
    received = true;
    signal();
  };
  process.on('SIGTERM', onSignal).on('SIGINT', onSignal);
  return {
    signalled,
    promise,
    received: () => received,
    forget: () => {
      clearTimeout(timer);
      process.off('SIGTERM', onSignal).off('SIGINT', onSignal);
    },
  };
}
