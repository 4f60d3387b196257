/** Files of the console that are loaded when they are needed. */
import { rememberedHere, rememberHere } from './memory.ts';

/** What this tab remembers of a reload that it made by itself. */
const RELOADED = 'reloaded';

/**
 * A file that is gone is of the version before: the page of the present one knows the names. Once, or it would reload
 * for ever where the platform is away. Returns whether the page is being loaded again.
 */
export function reloadForVersion(): boolean {
  if (rememberedHere(RELOADED) !== undefined || !navigator.onLine) return false;
  rememberHere(RELOADED, 'yes');
  location.reload();
  return true;
}

/** A file was there: another one that is gone may load the page again. */
export function noteLoaded(): void {
  rememberHere(RELOADED, undefined);
}
