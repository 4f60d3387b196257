/** Asks before several lines are pasted: a shell runs each as it comes. */
import type { RefObject } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Button } from '../../../parts/button.tsx';
import { Dialog } from '../../../parts/dialog.tsx';
import { t } from '../../../text/text.ts';
import type { Emulator } from './emulator.ts';

interface PasteGuardProps {
  readonly box: RefObject<HTMLElement | null>;
  readonly emulator: Emulator;
}

export function PasteGuard({ box, emulator }: PasteGuardProps) {
  const [text, setText] = useState<string>();
  useEffect(() => {
    const guard = (event: ClipboardEvent) => {
      const pasted = event.clipboardData?.getData('text/plain') ?? '';
      if (!/\n./.test(pasted)) return;
      event.preventDefault();
      event.stopPropagation();
      setText(pasted);
    };
    const { current } = box;
    current?.addEventListener('paste', guard, true);
    return () => current?.removeEventListener('paste', guard, true);
  }, [box]);
  if (text === undefined) return null;
  const close = () => {
    setText(undefined);
    emulator.focus();
  };
  const paste = () => {
    emulator.paste(text);
    close();
  };
  return (
    <Dialog title={t.terminal.paste(text.trimEnd().split('\n').length)} onClose={close}>
      <p class="dim">{t.terminal.pasteLead}</p>
      <div class="ends">
        <Button onClick={close}>{t.dialog.cancel}</Button>
        <Button kind="main" onClick={paste} autofocus>
          {t.terminal.pasteVerb}
        </Button>
      </div>
    </Dialog>
  );
}
