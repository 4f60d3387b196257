/** Addresses of the console: one signal with the present one, and links that change it without loading anything. */
import { signal } from '@preact/signals';

/** Where the page is. */
interface ConsolePlace {
  readonly path: string;
  readonly query: URLSearchParams;
}

export const place = signal<ConsolePlace>(read());

/** Values of a pattern's parameters. */
type PathParams = Readonly<Record<string, string>>;

/** What a screen is given. */
export interface ScreenProps {
  readonly params: PathParams;
}

/** Goes to an address of the console. `replace`: the one before is not come back to. */
export function go(to: string, { replace = false } = {}): void {
  const url = new URL(to, location.href);
  if (url.href === location.href) return;
  if (replace) history.replaceState(null, '', url);
  else history.pushState(null, '', url);
  const isOtherPage = url.pathname !== place.value.path;
  place.value = read();
  if (isOtherPage) scrollTo(0, 0);
}

/** Follows links and the browser's own buttons. Called once. */
export function startRouter(): void {
  addEventListener('popstate', () => {
    place.value = read();
  });
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (link === null || link.origin !== location.origin || link.target !== '' || link.hasAttribute('download')) return;
    // To a part of this page: the browser's own work.
    if (link.hash !== '' && link.pathname === location.pathname) return;
    event.preventDefault();
    go(link.href);
  });
}

/** The parameters of a path like `/containers/:id`, if it is one of the pattern. */
export function matchPath(pattern: string, path: string): PathParams | undefined {
  const wanted = pattern.split('/');
  const given = path.replace(/(?<=.)\/$/, '').split('/');
  if (wanted.length !== given.length) return undefined;
  const params: Record<string, string> = {};
  for (const [at, part] of wanted.entries()) {
    const value = given[at] ?? '';
    if (part.startsWith(':')) {
      if (value === '') return undefined;
      params[part.slice(1)] = decoded(value);
    } else if (part !== value) return undefined;
  }
  return params;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function read(): ConsolePlace {
  return { path: location.pathname, query: new URLSearchParams(location.search) };
}
