/** A shell as it is seen: what is to be said of it, its screen, and the keys that a touch screen lacks. */
import { useEffect, useRef } from 'preact/hooks';
import { Button } from '../../../parts/button.tsx';
import { Status, type StatusShape } from '../../../parts/status.tsx';
import { t } from '../../../text/text.ts';
import { FindBar } from './find.tsx';
import { KeyBar } from './key-bar.tsx';
import { PasteGuard } from './paste.tsx';
import { type OpenShell, type ShellState, WAY_OUT } from './shells.ts';

export const DOTS: Readonly<Record<ShellState['state'], StatusShape>> = {
  live: 'running',
  connecting: 'starting',
  lost: 'starting',
  ended: 'stopped',
  taken: 'stopped',
  failed: 'failed',
};

interface ShellViewProps {
  readonly shell: OpenShell;
  /** Changes when its place has another size. */
  readonly isWhole: boolean;
  readonly isFinding: boolean;
  readonly onFind: (isFinding: boolean) => void;
  /** Opens another one in its place; undefined while the container does not run. */
  readonly again: (() => void) | undefined;
}

export function ShellView({ shell, isWhole, isFinding, onFind, again }: ShellViewProps) {
  const emulator = shell.emulator.value;
  useEffect(() => {
    if (emulator !== undefined) emulator.onFindKey = () => onFind(true);
  }, [emulator]);
  return (
    <>
      <ShellWord shell={shell} again={again} />
      {isFinding && emulator !== undefined && <FindBar emulator={emulator} onClose={() => onFind(false)} />}
      <ShellScreen shell={shell} isWhole={isWhole} />
      <KeyBar shell={shell} />
      <footer class="way-out" id={WAY_OUT}>
        <kbd>Ctrl</kbd> <kbd>Shift</kbd> <kbd>X</kbd> {t.terminal.wayOut}
      </footer>
    </>
  );
}

/**
 * The screen itself, which lives on when this is gone. The button is its stop for Tab, which the shell takes for itself
 * once one types there.
 */
function ShellScreen({ shell, isWhole }: { readonly shell: OpenShell; readonly isWhole: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const way = useRef<HTMLButtonElement>(null);
  const emulator = shell.emulator.value;
  useEffect(() => {
    const outer = box.current;
    if (outer === null || emulator === undefined) return;
    outer.append(emulator.element);
    emulator.onLeaveKey = () => way.current?.focus();
    emulator.fit();
    if (!isBusyElsewhere(outer)) emulator.focus();
    const seen = new ResizeObserver(() => emulator.fit());
    seen.observe(outer);
    return () => {
      seen.disconnect();
      emulator.element.remove();
    };
  }, [emulator]);
  useEffect(() => emulator?.fit(), [emulator, isWhole]);
  return (
    <div class="place" ref={box}>
      {emulator !== undefined && (
        <>
          <button class="way-in" type="button" ref={way} aria-describedby={WAY_OUT} onClick={() => emulator.focus()}>
            {t.terminal.wayIn(shell.n)}
          </button>
          <PasteGuard box={box} emulator={emulator} />
        </>
      )}
    </div>
  );
}

/** Whether somebody went to something beside the terminal meanwhile: that keeps the focus. */
function isBusyElsewhere(place: HTMLElement): boolean {
  const { activeElement } = document;
  if (activeElement === null || activeElement === document.body || activeElement.matches('h1')) return false;
  return place.closest('.terminal-pane')?.contains(activeElement) !== true;
}

/** What is to be said of a shell that is not live, and the next step. */
function ShellWord({ shell, again }: Pick<ShellViewProps, 'shell' | 'again'>) {
  const { value } = shell.state;
  if (value.state === 'live' || value.state === 'connecting') return null;
  const words = value.state === 'failed' ? t.failure.sentence(value.error) : t.terminal[value.state];
  return (
    <div class="word" role="status">
      <Status shape={DOTS[value.state]} />
      <span>{words}</span>
      {value.state === 'taken' && <Button onClick={() => shell.rejoin()}>{t.terminal.back}</Button>}
      {(value.state === 'ended' || value.state === 'failed') && again !== undefined && (
        <Button onClick={again}>{t.terminal.again}</Button>
      )}
    </div>
  );
}
