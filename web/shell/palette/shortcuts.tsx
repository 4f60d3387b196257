/** The keys of the console, and what they open. Single letters count outside of inputs and terminals only. */
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { go, matchPath, place } from '../../core/router.ts';
import { Button } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { t } from '../../text/text.ts';
import { GO_KEYS } from './commands.ts';
import { Palette } from './palette.tsx';

/** How long G waits for its second letter, ms. */
const PATIENCE_MS = 1500;

const shown = signal<'palette' | 'keys' | undefined>(undefined);

export function openPalette(): void {
  shown.value = 'palette';
}

/** Listens to keys while it is there, and shows the palette and the list of keys. */
export function Shortcuts() {
  useEffect(() => {
    let since = 0;
    const press = (event: KeyboardEvent) => {
      const { key, target } = event;
      const inTerminal = target instanceof Element && target.closest('.xterm') !== null;
      if ((event.ctrlKey || event.metaKey) && key.toLowerCase() === 'k' && !inTerminal) {
        event.preventDefault();
        openPalette();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(target) || hasDialog()) return;
      const isAfterG = Date.now() - since < PATIENCE_MS;
      since = key === 'g' && !isAfterG ? Date.now() : 0;
      if (since === 0 && letter(key, isAfterG)) event.preventDefault();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
  const close = () => {
    shown.value = undefined;
  };
  if (shown.value === 'palette') return <Palette onClose={close} />;
  return shown.value === 'keys' ? <KeyList onClose={close} /> : null;
}

/** Whether the letter meant something here. */
function letter(key: string, isAfterG: boolean): boolean {
  if (isAfterG) {
    const [, href] = GO_KEYS.find(([one]) => one === key) ?? [];
    if (href !== undefined) go(href);
    return href !== undefined;
  }
  const id = matchPath('/containers/:id', place.value.path)?.id;
  if (key === '?') shown.value = 'keys';
  else if (key === 'c') go('/containers/new');
  else if (key === '/') return focusOn('.find input');
  else if (key === 't' && id !== undefined) return focusOn('.xterm-helper-textarea');
  else if (key === 'l' && id !== undefined) return focusOn('.log .scroll');
  else if (key === 'e' && id !== undefined) go(`/containers/${id}/settings`);
  else return false;
  return true;
}

function focusOn(selector: string): boolean {
  const found = document.querySelector<HTMLElement>(selector);
  found?.focus();
  return found !== null;
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest('input, textarea, select, [contenteditable], .xterm') !== null;
}

function hasDialog(): boolean {
  return document.querySelector('dialog[open], [popover]:popover-open') !== null;
}

function KeyList({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title={t.palette.keys} onClose={onClose}>
      <dl class="keys-list">
        {t.palette.keyList.map(([keys, what]) => (
          <>
            <dt key={keys}>
              {keys.split(' ').map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd key={what}>{what}</dd>
          </>
        ))}
      </dl>
      <div class="ends">
        <Button onClick={onClose}>{t.dialog.close}</Button>
      </div>
    </Dialog>
  );
}
