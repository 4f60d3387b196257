/** The signal that ends a command which runs until it is told to stop. */

/** Resolves `promise` at the first SIGTERM or SIGINT; a second SIGINT ends the process at once. `forget` stops listening. */
export function stopSignal(): { readonly promise: Promise<void>; received(): boolean; forget(): void } {
  let resolve: () => void = () => {};
  let received = false;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  const onSignal = (signal: NodeJS.Signals) => {
    if (received && signal === 'SIGINT') process.exit(130);
    received = true;
    resolve();
  };
  process.on('SIGTERM', onSignal).on('SIGINT', onSignal);
  return {
    promise,
    received: () => received,
    forget: () => {
      process.off('SIGTERM', onSignal).off('SIGINT', onSignal);
    },
  };
}
