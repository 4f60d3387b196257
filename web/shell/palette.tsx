/** The way to the palette, which is loaded when it is opened first. */
import { signal } from '@preact/signals';
import { Search } from 'lucide';
import type { ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import { loadFile } from '../core/chunk.ts';
import { isPaletteOpen } from '../core/keys.ts';
import { isOnline } from '../core/online.ts';
import { Icon } from '../parts/icon.tsx';
import { toast } from '../parts/toast.tsx';
import { t } from '../text/text.ts';

const loaded = signal<ComponentType | undefined>(undefined);

const show = () => {
  isPaletteOpen.value = true;
};

/** As wide as the rail, with the key that does the same. */
export function PaletteButton() {
  return (
    <button class="seek" type="button" onClick={show} aria-haspopup="dialog" aria-keyshortcuts="Control+K Meta+K">
      <Icon of={Search} />
      {t.palette.open}
      <kbd>{/Mac|iP/.test(navigator.userAgent) ? '⌘ K' : 'Ctrl K'}</kbd>
    </button>
  );
}

/** Where there is no room for words. */
export function PaletteIcon() {
  return (
    <button class="seek small" type="button" onClick={show} aria-haspopup="dialog" aria-label={t.palette.open}>
      <Icon of={Search} size={20} />
    </button>
  );
}

/** Where it is shown: there once. */
export function PaletteHost() {
  const isOpen = isPaletteOpen.value;
  useEffect(() => {
    if (isOpen && loaded.value === undefined) void load();
  }, [isOpen]);
  const Shown = loaded.value;
  return isOpen && Shown !== undefined ? <Shown /> : null;
}

async function load(): Promise<void> {
  try {
    const { Palette } = await loadFile('palette', () => import('../palette/palette.tsx'));
    loaded.value = Palette;
  } catch {
    isPaletteOpen.value = false;
    toast(isOnline.value ? t.palette.failed : t.link.offlineReason);
  }
}
