import type { AskEnvelope } from './wire.ts';

/** Which ask of another node. */
type AskOfOther = Pick<AskEnvelope, 'from' | 'ask'>;

/** The asks of other nodes that are being answered here and may be cancelled. */
export class AskCancels {
  readonly #open = new Map<string, AbortController>();

  /** The signal of an ask, if it may be cancelled; until `end`. */
  begin(envelope: AskEnvelope): AbortSignal | undefined {
    if (!envelope.isCancellable) return undefined;
    const controller = new AbortController();
    this.#open.set(keyOf(envelope), controller);
    return controller.signal;
  }

  end(envelope: AskEnvelope): void {
    if (envelope.isCancellable) this.#open.delete(keyOf(envelope));
  }

  /** The asker gave up. */
  cancel(ask: AskOfOther): void {
    this.#open.get(keyOf(ask))?.abort(new Error(`${ask.from} gave up`));
  }

  /** Nobody waits for the asks of nodes that are gone. */
  onGone(nodes: readonly string[]): void {
    for (const node of nodes) {
      for (const [key, controller] of this.#open) if (key.startsWith(`${node}/`)) controller.abort();
    }
  }
}

function keyOf({ from, ask }: AskOfOther): string {
  return `${from}/${ask}`;
}
