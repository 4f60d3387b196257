/** The places of the console that the navigation leads to. */
import { Bell, Box, Globe, type IconNode, KeyRound, Settings, Ticket } from 'lucide';
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

export const SETTINGS: NavPlace = { name: t.shell.settings, href: '/settings', icon: Settings };

/** Whether an address is at a place, or below it. */
export function isAt({ href }: NavPlace, path: string): boolean {
  return path === href || path.startsWith(`${href}/`);
}
