/** Whether terminals are made for screen readers: what a shell writes is then text that they read out. */
import { signal } from '@preact/signals';
import { remember, remembered } from './memory.ts';

export const isReadOut = signal(remembered('terminal.read-out') === 'on');

/** This browser remembers it. */
export function setReadOut(isOn: boolean): void {
  isReadOut.value = isOn;
  remember('terminal.read-out', isOn ? 'on' : undefined);
}
