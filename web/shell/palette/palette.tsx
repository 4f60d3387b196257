/** The palette: a few letters, and it goes there or does it. */
import './palette.css';
import { Search } from 'lucide';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { useDeed } from '../../core/deed.ts';
import { Icon } from '../../parts/icon.tsx';
import { Failure } from '../../parts/note.tsx';
import { t } from '../../text/text.ts';
import { type PaletteCommand, paletteCommands } from './commands.ts';
import { matching } from './match.ts';

export function Palette({ onClose }: { readonly onClose: () => void }) {
  const box = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState('');
  const [at, setAt] = useState(0);
  const id = useId();
  useEffect(() => {
    const dialog = box.current;
    // A press beside it closes it, where the browser knows that.
    dialog?.setAttribute('closedby', 'any');
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  const lines = matching(paletteCommands(), typed);
  const chosen = Math.min(at, lines.length - 1);
  const deed = useDeed(async (command: PaletteCommand) => {
    await command.run();
    onClose();
  });
  useEffect(() => {
    document.getElementById(`${id}-${chosen}`)?.scrollIntoView({ block: 'nearest' });
  }, [chosen]);
  const keys = (event: KeyboardEvent) => {
    const line = lines[chosen];
    if (event.key === 'ArrowDown') setAt((chosen + 1) % Math.max(1, lines.length));
    else if (event.key === 'ArrowUp') setAt((chosen - 1 + lines.length) % Math.max(1, lines.length));
    else if (event.key === 'Enter' && line !== undefined) void deed.run(line);
    else return;
    event.preventDefault();
  };
  return (
    <dialog class="palette" ref={box} aria-label={t.palette.title} onClose={onClose}>
      <div class="ask">
        <Icon of={Search} size={18} />
        <input
          type="text"
          role="combobox"
          aria-label={t.palette.title}
          aria-expanded={true}
          aria-autocomplete="list"
          aria-controls={id}
          aria-activedescendant={lines.length === 0 ? undefined : `${id}-${chosen}`}
          value={typed}
          placeholder={t.palette.title}
          autocapitalize="none"
          spellcheck={false}
          onInput={(event) => [setTyped(event.currentTarget.value), setAt(0)]}
          onKeyDown={keys}
        />
        <kbd>Esc</kbd>
      </div>
      <Failure error={deed.error} />
      {lines.length === 0 && <p class="empty-line">{t.palette.none}</p>}
      <div role="listbox" id={id} aria-label={t.palette.results} tabIndex={-1}>
        {lines.map((line, n) => (
          <div
            key={line.name}
            role="option"
            id={`${id}-${n}`}
            aria-selected={n === chosen}
            tabIndex={-1}
            onClick={() => void deed.run(line)}
            onKeyDown={keys}
          >
            <Icon of={line.icon} />
            <span class="cut">{line.name}</span>
            {line.keys !== undefined && <kbd>{line.keys}</kbd>}
          </div>
        ))}
      </div>
      <footer>
        <span>
          <kbd>↑</kbd> <kbd>↓</kbd> {t.palette.choose}
        </span>
        <span>
          <kbd>Enter</kbd> {t.palette.do}
        </span>
      </footer>
    </dialog>
  );
}
