/**
 * An error that says by its code what went wrong: callers decide by the code, never by the text. It has the name of its
 * class. Extend it once for each part, with the codes of that part.
 */
export abstract class CodedError<C extends string> extends Error {
  readonly code: C;

  constructor(code: C, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}
