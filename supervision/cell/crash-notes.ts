import { errorText } from '../../lib/errors.ts';

/** The last crash of an actor. */
export interface CrashNote {
  /** Unix ms. */
  readonly at: number;
  /** What it worked on: the type of a message, or `initial state`. */
  readonly message: string;
  /** The name of the error, its `code` if it has one, and the beginning of its text. */
  readonly error: string;
  readonly code?: string;
  readonly text: string;
}

const MAX_NOTES = 1000;
const MAX_TEXT = 200;
const MAX_NAME = 64;

/** The last crashes of one system, by path: those of an actor that is started again under its name stay. */
export class CrashNotes {
  private readonly notes = new Map<string, CrashNote>();

  /** Never throws. */
  add(path: string, message: string, error: unknown): void {
    // Last again, so that the oldest are first.
    this.notes.delete(path);
    this.notes.set(path, noteOf(message, error));
    if (this.notes.size <= MAX_NOTES) return;
    for (const oldest of this.notes.keys()) {
      this.notes.delete(oldest);
      return;
    }
  }

  of(path: string): CrashNote | undefined {
    return this.notes.get(path);
  }
}

function noteOf(message: string, error: unknown): CrashNote {
  const at = Date.now();
  try {
    const name = (error instanceof Error ? error.name : typeof error).slice(0, MAX_NAME);
    const note = { at, message, error: name, text: withoutPasswords(errorText(error)).slice(0, MAX_TEXT) };
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    return typeof code === 'string' ? { ...note, code: code.slice(0, MAX_NAME) } : note;
  } catch {
    return { at, message, error: 'unknown', text: '' };
  }
}

/** Errors hold no secrets, but those of libraries may quote a URL. */
function withoutPasswords(text: string): string {
  return text.includes('@') ? text.replace(/\/\/[^\s/@]*@/g, '//***@') : text;
}
