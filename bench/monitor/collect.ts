/** Loaded before a server that is measured: collects garbage when told by SIGUSR2, and says on standard output what is left. */
process.on('SIGUSR2', async () => {
  // What came and went is given back over a few turns, not at the first collection.
  for (let turn = 0; turn < 5; turn++) {
    await new Promise((resolve) => setTimeout(resolve, 200));
    globalThis.gc?.();
  }
  const { heapUsed, external } = process.memoryUsage();
  process.stdout.write(`${JSON.stringify({ live: heapUsed + external })}\n`);
});
