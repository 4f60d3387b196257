/** What a person at the terminal sees of long work. */

/** Receives lines of progress. */
interface Progress {
  /** Something began or went on. */
  line(text: string): void;
}

/** Lines on a stream; on a terminal the last line of running work is replaced in place. */
export function progressOn(stream: NodeJS.WriteStream): Progress & { done(): void } {
  let open = false;
  return {
    line(text) {
      const clean = text.replace(/[\p{Cc}]+/gu, ' ').trim();
      if (!stream.isTTY) {
        stream.write(`  ${clean}\n`);
        return;
      }
      stream.write(`\r\x1b[K  ${clean.slice(0, Math.max(20, (stream.columns || 80) - 3))}`);
      open = true;
    },
    done() {
      if (open) stream.write('\r\x1b[K');
      open = false;
    },
  };
}
