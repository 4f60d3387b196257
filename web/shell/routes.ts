/**
 * The screens and their addresses. A screen is a function of the address's parameters, in a file of its own that is
 * loaded when somebody goes there.
 */
import type { ComponentType } from 'preact';
import type { ScreenProps } from '../core/router.ts';

/** An address and its screen. */
export interface ScreenRoute {
  readonly pattern: string;
  readonly load: () => Promise<ComponentType<ScreenProps>>;
}

export const ROUTES: readonly ScreenRoute[] = [
  { pattern: '/containers', load: async () => (await import('../screens/containers/containers.tsx')).Containers },
  { pattern: '/containers/new', load: async () => (await import('../screens/create/create.tsx')).Create },
  { pattern: '/containers/:id', load: async () => (await import('../screens/container/workbench.tsx')).Workbench },
];
