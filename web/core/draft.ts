/** What a person types into a form of something that is saved already, and that may change meanwhile. */
import { useEffect, useState } from 'preact/hooks';

interface Draft<T> {
  /** What was typed; without that, what is saved. */
  readonly value: T;
  set(value: T): void;
  /**
   * What this draft held was saved: from the next change on, what is saved is shown, however the platform wrote it.
   * What was typed since then stays.
   */
  saved(): void;
}

interface Typed<T> {
  readonly value: T;
  /** What was saved when it was typed. */
  readonly base: T;
  readonly isSaved: boolean;
}

/** A draft of `saved`. What others save while somebody types does not take the draft away. */
export function useDraft<T extends string>(saved: T): Draft<T> {
  const [typed, setTyped] = useState<Typed<T> | undefined>(undefined);
  const isOver = typed !== undefined && (typed.value === saved || (typed.isSaved && typed.base !== saved));
  useEffect(() => {
    // What is typed after that was shown, and before this, stays.
    if (isOver) setTyped((now) => (now === typed ? undefined : now));
  }, [isOver, typed]);
  return {
    value: typed === undefined || isOver ? saved : typed.value,
    set: (value) => setTyped({ value, base: saved, isSaved: false }),
    saved: () => setTyped((now) => (now === undefined || now !== typed ? now : { ...now, isSaved: true })),
  };
}
