/** Files of the console that are loaded when they are needed. */
import { TroupeError } from '../../client/index.ts';
import { rememberedHere, rememberHere } from './memory.ts';

/**
 * Loads a file of the console, of this name. One that is gone is of the version before: the page of the present one
 * knows the names, so it is loaded, once for each file, or it would go on for ever. Rejects when that did not help, and
 * while the platform is away: a page that is loaded then is lost.
 */
export async function loadFile<T>(name: string, load: () => Promise<T>): Promise<T> {
  const reloaded = `reloaded.${name}`;
  try {
    const file = await load();
    rememberHere(reloaded, undefined);
    return file;
  } catch (error) {
    if (rememberedHere(reloaded) !== undefined) throw error;
    if (!(await isPageThere())) throw new TroupeError('unreachable', `${name} cannot be loaded.`, { cause: error });
    rememberHere(reloaded, 'yes');
    location.reload();
    // Nothing more happens on this page.
    return new Promise(() => {});
  }
}

async function isPageThere(): Promise<boolean> {
  try {
    return (await fetch('/', { method: 'HEAD', cache: 'no-store' })).ok;
  } catch {
    return false;
  }
}
