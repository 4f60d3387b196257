/** The places of the console that the navigation leads to. */
import {
  Bell,
  Box,
  Boxes,
  Globe,
  type IconNode,
  KeyRound,
  Route,
  ScrollText,
  Server,
  Settings,
  Ticket,
  Users,
  Waypoints,
} from 'lucide';
import { t } from '../text/text.ts';

/** A place in the navigation. */
export interface NavPlace {
  readonly name: string;
  readonly href: string;
  readonly icon: IconNode;
}

export const MAIN: readonly NavPlace[] = [
  { name: t.shell.containers, href: '/containers', icon: Box },
  { name: t.shell.hostnames, href: '/hostnames', icon: Globe },
  { name: t.shell.activity, href: '/activity', icon: Bell },
];

export const ACCESS: readonly NavPlace[] = [
  { name: t.shell.keys, href: '/keys', icon: KeyRound },
  { name: t.shell.tokens, href: '/tokens', icon: Ticket },
];

/** For the administrator alone. */
export const PLATFORM: readonly NavPlace[] = [
  { name: t.platform.containers, href: '/platform/containers', icon: Boxes },
  { name: t.platform.users, href: '/platform/users', icon: Users },
  { name: t.platform.machines, href: '/platform/machines', icon: Server },
  { name: t.platform.audit, href: '/platform/audit', icon: ScrollText },
  { name: t.platform.routes, href: '/platform/routes', icon: Route },
  { name: t.platform.map, href: '/platform/map', icon: Waypoints },
];

export const SETTINGS: NavPlace = { name: t.shell.settings, href: '/settings', icon: Settings };

/** Whether an address is shown without the frame of all screens: a window of its own. */
export function isAlone(path: string): boolean {
  return /^\/containers\/[^/]+\/shell\//.test(path);
}

/** Whether an address is for whoever comes, logged in or not. */
export function isOpen(path: string): boolean {
  return /^\/password\/?$/.test(path);
}

/** Whether an address is at a place, or below it. */
export function isAt({ href }: NavPlace, path: string): boolean {
  return path === href || path.startsWith(`${href}/`);
}
