/** Keys that a keyboard on a touch screen lacks. */
import { useState } from 'preact/hooks';
import { t } from '../../../text/text.ts';
import type { OpenShell } from './shells.ts';

const ESC = '\u001b';
/** The last letter of the code of an arrow key. */
const ARROWS: readonly (readonly [name: string, ends: 'A' | 'B' | 'C' | 'D'])[] = [
  ['↑', 'A'],
  ['↓', 'B'],
  ['←', 'D'],
  ['→', 'C'],
];
const BEFORE: readonly (readonly [name: string, sends: string])[] = [
  ['Esc', ESC],
  ['Tab', '\t'],
];
const BEHIND: readonly (readonly [name: string, sends: string])[] = [
  ['/', '/'],
  ['|', '|'],
  ['-', '-'],
];
/** What is pressed most with Ctrl. */
const WITH_CTRL: readonly (readonly [name: string, sends: string])[] = [
  ['C', '\u0003'],
  ['D', '\u0004'],
  ['Z', '\u001a'],
  ['L', '\u000c'],
  ['R', '\u0012'],
];

export function KeyBar({ shell }: { readonly shell: OpenShell }) {
  const [isCtrl, setCtrl] = useState(false);
  const press = (data: string) => {
    shell.write(data);
    setCtrl(false);
    shell.emulator.value?.focus();
  };
  const key = ([name, sends]: readonly [name: string, sends: string]) => (
    <button key={name} type="button" onClick={() => press(sends)}>
      {name}
    </button>
  );
  return (
    <div class="key-bar" role="toolbar" aria-label={t.terminal.keys}>
      <button type="button" aria-pressed={isCtrl} onClick={() => setCtrl(!isCtrl)}>
        Ctrl
      </button>
      {(isCtrl ? WITH_CTRL : BEFORE).map(key)}
      {!isCtrl &&
        ARROWS.map(([name, ends]) => (
          <button
            key={name}
            type="button"
            aria-label={t.terminal.arrows[ends]}
            onClick={() => press(`${shell.emulator.value?.arrowPrefix() ?? `${ESC}[`}${ends}`)}
          >
            {name}
          </button>
        ))}
      {!isCtrl && BEHIND.map(key)}
    </div>
  );
}
