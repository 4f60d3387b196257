/** What somebody just did, said once and briefly. Never what broke: that is said where it broke. */
import './dialog.css';
import { signal } from '@preact/signals';

const SHOWN_MS = 6000;

interface ToastLine {
  readonly id: number;
  readonly text: string;
}

const lines = signal<readonly ToastLine[]>([]);
let next = 0;

/** Says it for 6 s. */
export function toast(text: string): void {
  const line = { id: next++, text };
  lines.value = [...lines.value.slice(-2), line];
  setTimeout(() => {
    lines.value = lines.value.filter(({ id }) => id !== line.id);
  }, SHOWN_MS);
}

/** Where they are shown: there once. */
export function Toasts() {
  return (
    <div class="toasts" aria-live="polite">
      {lines.value.map(({ id, text }) => (
        <output key={id}>{text}</output>
      ))}
    </div>
  );
}
