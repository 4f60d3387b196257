/** The first line of an SSH client (RFC 4253 section 4.2), looked at before anything is kept for it. */

/** `more`: not decided yet. */
type Verdict = 'good' | 'bad' | 'more';

/** Longest line, CR and LF among its bytes. */
const MAX_BYTES = 255;
const LINE_FEED = 0x0a;
/** Printable US-ASCII, with a blank before the comment. */
const LINE = /^SSH-(?:2\.0|1\.99)-[!-~]+(?: [ -~]*)?\r?\n$/;

/** Reads one client's first line, in whatever pieces it comes. */
export class Identification {
  #read = '';
  #verdict: Verdict = 'more';

  /** Takes the next bytes. Once it has said `good` or `bad` it says so for ever. */
  push(bytes: Buffer): Verdict {
    if (this.#verdict !== 'more') return this.#verdict;
    const end = bytes.indexOf(LINE_FEED);
    const part = end < 0 ? bytes : bytes.subarray(0, end + 1);
    if (this.#read.length + part.length > MAX_BYTES) this.#verdict = 'bad';
    else {
      this.#read += part.toString('latin1');
      if (end >= 0) this.#verdict = LINE.test(this.#read) ? 'good' : 'bad';
      else if (!couldBegin(this.#read)) this.#verdict = 'bad';
    }
    return this.#verdict;
  }
}

/** Whether a line may begin so: there is no need to wait for the rest of what is something else. */
function couldBegin(text: string): boolean {
  return 'SSH-'.startsWith(text.slice(0, 4));
}
