/**
 * The result of `work`, or of `late` when there is none after `ms`: `late` gives another result, or throws. Rejects as
 * `work` does. What `work` comes to later is ignored; the timer ends with the first of both.
 */
export async function withTimeout<T, L>(work: Promise<T>, ms: number, late: () => L): Promise<T | L> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  }).then(late);
  try {
    return await Promise.race([work, over]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits for `work`, but no longer than `ms`. Rejects as `work` does. */
export async function waitAtMost(work: Promise<unknown>, ms: number): Promise<void> {
  await withTimeout(work, ms, () => undefined);
}
