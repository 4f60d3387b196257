/** The screen of the present address: loaded when it is needed, once. */
import { signal } from '@preact/signals';
import type { ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import { loadFile } from '../core/chunk.ts';
import { asTroupeError } from '../core/platform.ts';
import { go, matchPath, place, type ScreenProps } from '../core/router.ts';
import { Failure } from '../parts/note.tsx';
import { Missing } from '../screens/missing/missing.tsx';
import { ROUTES, type ScreenRoute } from './routes.ts';

const HOME = '/containers';

const loaded = signal<ReadonlyMap<ScreenRoute, ComponentType<ScreenProps>>>(new Map());
const failed = signal<unknown>(undefined);

export function Screen() {
  const { path } = place.value;
  const isHome = path === '/' || path === '/login';
  const found = ROUTES.flatMap((route) => {
    const params = matchPath(route.pattern, path);
    return params === undefined ? [] : [{ route, params }];
  })[0];
  useEffect(() => {
    if (isHome) go(HOME, { replace: true });
  }, [isHome]);
  const route = found?.route;
  useEffect(() => {
    if (route !== undefined) void load(route);
  }, [route]);
  if (isHome) return null;
  if (found === undefined) return <Missing />;
  const Shown = 'screen' in found.route ? found.route.screen : loaded.value.get(found.route);
  if (Shown !== undefined) return <Shown params={found.params} />;
  if (failed.value === undefined) return <main class="page" id="main" aria-busy="true" />;
  return (
    <main class="page narrow" id="main">
      <Failure error={asTroupeError(failed.value)} onRetry={() => void load(found.route)} />
    </main>
  );
}

async function load(route: ScreenRoute): Promise<void> {
  if ('screen' in route || loaded.value.has(route)) return;
  failed.value = undefined;
  try {
    const shown = await loadFile(route.pattern, route.load);
    loaded.value = new Map(loaded.value).set(route, shown);
  } catch (error) {
    failed.value = error;
  }
}
