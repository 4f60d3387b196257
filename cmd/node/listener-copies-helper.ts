/**
 * What listener-copies.ts starts: sends the listening socket that it is sent back as often as it is asked to, and ends.
 */
process.on('message', (count: number, handle) => {
  let left = count;
  const sent = () => {
    if (--left === 0) process.disconnect();
  };
  for (let i = 0; i < count; i++) process.send?.(i, handle, { keepOpen: true }, sent);
});
