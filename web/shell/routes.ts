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
  { pattern: '/containers/:id/network', load: async () => (await import('../screens/container/network.tsx')).Network },
  { pattern: '/containers/:id/storage', load: async () => (await import('../screens/container/storage.tsx')).Storage },
  { pattern: '/containers/:id/ssh', load: async () => (await import('../screens/container/ssh.tsx')).Ssh },
  { pattern: '/containers/:id/history', load: async () => (await import('../screens/container/history.tsx')).History },
  {
    pattern: '/containers/:id/settings',
    load: async () => (await import('../screens/container/settings.tsx')).ContainerSettings,
  },
  { pattern: '/hostnames', load: async () => (await import('../screens/hostnames/hostnames.tsx')).Hostnames },
  { pattern: '/activity', load: async () => (await import('../screens/activity/activity.tsx')).Activity },
  { pattern: '/keys', load: async () => (await import('../screens/keys/keys.tsx')).Keys },
  { pattern: '/tokens', load: async () => (await import('../screens/tokens/tokens.tsx')).Tokens },
  { pattern: '/settings', load: async () => (await import('../screens/settings/settings.tsx')).Settings },
  { pattern: '/more', load: async () => (await import('../screens/more/more.tsx')).More },
];
