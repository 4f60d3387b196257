/** Light, dark, or as the system has it. */
import { effect, signal } from '@preact/signals';
import { remember, remembered } from './memory.ts';

export type Theme = 'system' | 'light' | 'dark';

export const theme = signal<Theme>(read());

/** Called once. */
export function startTheme(): void {
  effect(() => {
    const { dataset } = document.documentElement;
    if (theme.value === 'system') delete dataset.theme;
    else dataset.theme = theme.value;
    remember('theme', theme.value === 'system' ? undefined : theme.value);
  });
}

function read(): Theme {
  const kept = remembered('theme');
  return kept === 'light' || kept === 'dark' ? kept : 'system';
}
