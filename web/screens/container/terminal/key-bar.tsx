/** Keys that a keyboard on a touch screen lacks. */
import { useState } from 'preact/hooks';
import { t } from '../../../text/text.ts';
import type { OpenShell } from './shells.ts';

const ESC = '\u001b';
const KEYS: readonly (readonly [name: string, sends: string])[] = [
  ['Esc', ESC],
  ['Tab', '\t'],
  ['↑', `${ESC}[A`],
  ['↓', `${ESC}[B`],
  ['←', `${ESC}[D`],
  ['→', `${ESC}[C`],
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
  return (
    <div class="key-bar" role="toolbar" aria-label={t.terminal.keys}>
      <button type="button" aria-pressed={isCtrl} onClick={() => setCtrl(!isCtrl)}>
        Ctrl
      </button>
      {(isCtrl ? WITH_CTRL : KEYS).map(([name, sends]) => (
        <button key={name} type="button" onClick={() => press(sends)}>
          {name}
        </button>
      ))}
    </div>
  );
}
