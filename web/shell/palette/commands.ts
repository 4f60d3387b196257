/** What the palette can do: places, and deeds for each container. */
import {
  CirclePlus,
  Copy,
  type IconNode,
  LogOut,
  Moon,
  Play,
  ScrollText,
  Square,
  SquareTerminal,
  Sun,
  SunMoon,
} from 'lucide';
import type { Container } from '../../../client/index.ts';
import { ACCESS, MAIN, SETTINGS } from '../../core/places.ts';
import { call } from '../../core/platform.ts';
import { go } from '../../core/router.ts';
import { logOut } from '../../core/session.ts';
import { theme } from '../../core/theme.ts';
import { containers, noteContainer } from '../../live/live.ts';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';

/** One line of the palette. */
export interface PaletteCommand {
  readonly name: string;
  readonly icon: IconNode;
  /** Keys that do the same. */
  readonly keys?: string;
  /** Rejects with TroupeError where it is refused. */
  run(): unknown;
}

/** All there are now. */
export function paletteCommands(): readonly PaletteCommand[] {
  return [
    ...(containers.value ?? []).flatMap(ofContainer),
    { name: t.palette.create, icon: CirclePlus, keys: 'C', run: () => go('/containers/new') },
    ...[...MAIN, ...ACCESS, SETTINGS].map(({ name, href, icon }) => ({
      name: t.palette.goTo(name),
      icon,
      keys: `G ${GO_KEYS.find(([, to]) => to === href)?.[0].toUpperCase() ?? ''}`,
      run: () => go(href),
    })),
    { name: t.palette.light, icon: Sun, run: () => setTheme('light') },
    { name: t.palette.dark, icon: Moon, run: () => setTheme('dark') },
    { name: t.palette.system, icon: SunMoon, run: () => setTheme('system') },
    { name: t.settings.logOut, icon: LogOut, run: logOut },
  ];
}

/** The letters after G, and where they lead. */
export const GO_KEYS: readonly (readonly [key: string, href: string])[] = [
  ['c', '/containers'],
  ['h', '/hostnames'],
  ['a', '/activity'],
  ['k', '/keys'],
  ['t', '/tokens'],
  ['s', '/settings'],
];

function ofContainer(container: Container): PaletteCommand[] {
  const { id, name, status, ssh } = container;
  const isStill = status === 'stopped' || status === 'failed';
  const found: PaletteCommand[] = [];
  if (status === 'running')
    found.push({
      name: t.palette.terminal(name),
      icon: SquareTerminal,
      run: () => go(`/containers/${id}?show=terminal`),
    });
  found.push({ name: t.palette.logs(name), icon: ScrollText, run: () => go(`/containers/${id}?show=log`) });
  if (isStill) found.push({ name: t.palette.start(name), icon: Play, run: () => setRunning(container, true) });
  else found.push({ name: t.palette.stop(name), icon: Square, run: () => setRunning(container, false) });
  if (ssh !== undefined) found.push({ name: t.palette.copySsh(name), icon: Copy, run: () => copyText(ssh.command) });
  return found;
}

async function setRunning({ id, name }: Container, isStart: boolean): Promise<void> {
  noteContainer(await call(isStart ? 'startContainer' : 'stopContainer', { params: { id } }));
  toast(isStart ? t.container.starting(name) : t.container.stopping(name));
}

async function copyText(text: string): Promise<void> {
  await navigator.clipboard.writeText(text);
  toast(t.copy.done);
}

function setTheme(to: 'light' | 'dark' | 'system'): void {
  theme.value = to;
}
