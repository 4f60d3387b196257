/** Find in a terminal: in what can be scrolled back to. */
import { ArrowDown, ArrowUp, X } from 'lucide';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Button } from '../../../parts/button.tsx';
import { t } from '../../../text/text.ts';
import type { Emulator } from './emulator.ts';

interface FindBarProps {
  readonly emulator: Emulator;
  readonly onClose: () => void;
}

export function FindBar({ emulator, onClose }: FindBarProps) {
  const [words, setWords] = useState('');
  const field = useRef<HTMLInputElement>(null);
  const { at, of } = emulator.found.value;
  // Before anything else is typed.
  useLayoutEffect(() => {
    field.current?.focus();
    return () => emulator.endFind();
  }, [emulator]);
  const close = () => {
    onClose();
    emulator.focus();
  };
  const type = (text: string) => {
    setWords(text);
    emulator.find(text, 'as typed');
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === 'Enter') emulator.find(words, event.shiftKey ? 'before' : 'next');
    else if (event.key === 'Escape') close();
    else return;
    event.preventDefault();
  };
  return (
    <search class="shell-find">
      <input
        ref={field}
        type="text"
        value={words}
        aria-label={t.terminal.find}
        placeholder={t.terminal.find}
        autocapitalize="none"
        spellcheck={false}
        onInput={(event) => type(event.currentTarget.value)}
        onKeyDown={keys}
      />
      <span class="num tiny" role="status">
        {words === '' ? '' : of === 0 ? t.log.none : t.log.found(at + 1, of)}
      </span>
      <Button kind="bare" icon={ArrowUp} label={t.log.previous} onClick={() => emulator.find(words, 'before')} />
      <Button kind="bare" icon={ArrowDown} label={t.log.next} onClick={() => emulator.find(words, 'next')} />
      <Button kind="bare" icon={X} label={t.terminal.endFind} onClick={close} />
    </search>
  );
}
