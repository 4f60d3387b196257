/**
 * The screens and their addresses. A screen is a function of the address's parameters, in a file of its own that is
 * loaded when somebody goes there.
 */
import type { ComponentType } from 'preact';
import type { ScreenProps } from '../core/router.ts';
import { Containers } from '../screens/containers/containers.tsx';

/** An address and its screen: one that is loaded, or one that is there. */
export type ScreenRoute = { readonly pattern: string } & (
  | { readonly load: () => Promise<ComponentType<ScreenProps>> }
  | { readonly screen: ComponentType<ScreenProps> }
);

const PLATFORM_ROUTES: readonly ScreenRoute[] = [
  {
    pattern: '/platform/containers',
    load: async () => (await import('../screens/platform/containers.tsx')).AllContainers,
  },
  { pattern: '/platform/users', load: async () => (await import('../screens/platform/users.tsx')).Users },
  { pattern: '/platform/machines', load: async () => (await import('../screens/platform/machines.tsx')).Machines },
  { pattern: '/platform/audit', load: async () => (await import('../screens/platform/audit.tsx')).AuditTrail },
  { pattern: '/platform/routes', load: async () => (await import('../screens/platform/routes.tsx')).RoutesPage },
  { pattern: '/platform/map', load: async () => (await import('../screens/platform/map.tsx')).DependencyPage },
];

export const ROUTES: readonly ScreenRoute[] = [
  ...PLATFORM_ROUTES,
  // The first page of most visits is there at once: a file of its own would need twenty that screens share.
  { pattern: '/containers', screen: Containers },
  { pattern: '/containers/new', load: async () => (await import('../screens/create/create.tsx')).Create },
  { pattern: '/containers/:id', load: async () => (await import('../screens/container/workbench.tsx')).Workbench },
  {
    pattern: '/containers/:id/shell/:session',
    load: async () => (await import('../screens/container/shell.tsx')).ShellWindow,
  },
  { pattern: '/containers/:id/network', load: async () => (await import('../screens/container/network.tsx')).Network },
  { pattern: '/containers/:id/storage', load: async () => (await import('../screens/container/storage.tsx')).Storage },
  { pattern: '/containers/:id/ssh', load: async () => (await import('../screens/container/ssh.tsx')).Ssh },
  { pattern: '/containers/:id/history', load: async () => (await import('../screens/container/history.tsx')).History },
  {
    pattern: '/containers/:id/settings',
    load: async () => (await import('../screens/container/settings.tsx')).ContainerSettings,
  },
  { pattern: '/hostnames', load: async () => (await import('../screens/hostnames/hostnames.tsx')).Hostnames },
  // Notifications of before lead there.
  { pattern: '/domains/:id', load: async () => (await import('../screens/hostnames/hostnames.tsx')).Hostnames },
  { pattern: '/activity', load: async () => (await import('../screens/activity/activity.tsx')).Activity },
  {
    pattern: '/activity/delivery',
    load: async () => (await import('../screens/activity/delivery/delivery.tsx')).Delivery,
  },
  { pattern: '/keys', load: async () => (await import('../screens/keys/keys.tsx')).Keys },
  { pattern: '/tokens', load: async () => (await import('../screens/tokens/tokens.tsx')).Tokens },
  { pattern: '/settings', load: async () => (await import('../screens/settings/settings.tsx')).Settings },
  { pattern: '/device', load: async () => (await import('../screens/device/device.tsx')).Device },
  { pattern: '/enter', load: async () => (await import('../screens/enter/enter.tsx')).Enter },
  { pattern: '/password', load: async () => (await import('../screens/password/password.tsx')).PasswordLink },
  { pattern: '/more', load: async () => (await import('../screens/more/more.tsx')).More },
];
