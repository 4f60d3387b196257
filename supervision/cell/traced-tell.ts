/** What a tell carries while it waits, if it belongs to a trace. */
export class TracedTell {
  /** Coarse time of its arrival. */
  readonly at: number;
  readonly trace: string;
  /** Unlike an ask it is never over before its turn. */
  readonly open = true;

  constructor(at: number, trace: string) {
    this.at = at;
    this.trace = trace;
  }
}
