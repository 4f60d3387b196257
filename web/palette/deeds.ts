/** What the palette can do: for each container, each place, and what belongs to neither. */
import {
  Box,
  Copy,
  type IconNode,
  Keyboard,
  LogOut,
  Moon,
  Play,
  Plus,
  RotateCw,
  ScrollText,
  Search,
  Speech,
  Square,
  SquareTerminal,
  Sun,
  SunMoon,
} from 'lucide';
import type { Container } from '../../client/index.ts';
import { troupeLine } from '../core/command.ts';
import { findOnPage, hasLetterKeys, keyOf, setLetterKeys } from '../core/keys.ts';
import { byName } from '../core/name-order.ts';
import { ACCESS, MAIN, PLATFORM, SETTINGS } from '../core/places.ts';
import { call } from '../core/platform.ts';
import { isReadOut, setReadOut } from '../core/read-out.ts';
import { logOut, personNow } from '../core/session.ts';
import { type Theme, theme } from '../core/theme.ts';
import { offer } from '../live/facts.ts';
import { containers, noteContainer } from '../live/live.ts';
import { offlineReason } from '../parts/offline.ts';
import { toast } from '../parts/toast.tsx';
import { t } from '../text/text.ts';
import { restart } from './restart.ts';

/** A line of the palette. It leads somewhere, or does something. */
export interface PaletteDeed {
  readonly id: string;
  readonly group: string;
  readonly name: string;
  readonly icon: IconNode;
  readonly href?: string;
  /** Rejects with what is shown in the palette. */
  readonly run?: () => Promise<void>;
  /** After the palette has closed and given the focus back. */
  readonly after?: () => void;
  readonly key?: string | undefined;
  /** The same as a line for a shell. */
  readonly command?: string;
  /** `run` asks the platform, which it cannot while the browser is offline. */
  readonly asks?: boolean;
  /** Why it cannot be done now. */
  readonly reason?: string | undefined;
}

/** All, those of the container on the page first. */
export function paletteDeeds(path: string): PaletteDeed[] {
  const own = [...(containers.value ?? [])].sort(byName);
  const isHere = ({ id }: Container) => path.startsWith(`/containers/${id}`);
  const here = own.filter(isHere).flatMap(deedsOfContainer);
  const others = own.filter((one) => !isHere(one)).flatMap(deedsOfContainer);
  return [...here, ...places(), ...general(), ...others].map(asKnown);
}

function asKnown(deed: PaletteDeed): PaletteDeed {
  return { ...deed, reason: deed.reason ?? offlineReason(deed.asks === true) };
}

function deedsOfContainer(container: Container): PaletteDeed[] {
  const { id, name, status, ssh } = container;
  const isStill = status === 'stopped' || status === 'failed';
  const home = `/containers/${id}`;
  const deed = (what: string, rest: Omit<PaletteDeed, 'id' | 'group'>) => ({
    id: `${what}-${id}`,
    group: name,
    ...rest,
  });
  const terminal = deed('terminal', {
    name: t.palette.terminal(name),
    icon: SquareTerminal,
    href: `${home}?show=terminal`,
    command: troupeLine('shell', name),
  });
  const copy = ssh === undefined ? [] : [copySsh(container, ssh.command)];
  return [
    ...(status === 'running' ? [terminal] : []),
    deed('logs', {
      name: t.palette.logs(name),
      icon: ScrollText,
      href: `${home}?show=log`,
      command: troupeLine('logs', '-f', name),
    }),
    ...(isStill ? [startDeed(container)] : [stopDeed(container), restartDeed(container)]),
    ...copy,
    deed('open', { name: t.palette.overview(name), icon: Box, href: home, command: troupeLine('show', name) }),
  ];
}

function startDeed({ id, name }: Container): PaletteDeed {
  return {
    id: `start-${id}`,
    group: name,
    name: t.palette.start(name),
    icon: Play,
    command: troupeLine('start', name),
    asks: true,
    run: async () => {
      noteContainer(await call('startContainer', { params: { id } }));
      toast(t.container.starting(name));
    },
  };
}

function stopDeed({ id, name }: Container): PaletteDeed {
  return {
    id: `stop-${id}`,
    group: name,
    name: t.palette.stop(name),
    icon: Square,
    command: troupeLine('stop', name),
    asks: true,
    run: async () => {
      noteContainer(await call('stopContainer', { params: { id } }));
      toast(t.container.stopping(name));
    },
  };
}

function restartDeed(container: Container): PaletteDeed {
  const { id, name } = container;
  return {
    id: `restart-${id}`,
    group: name,
    name: t.palette.restart(name),
    icon: RotateCw,
    command: troupeLine('restart', name),
    asks: true,
    run: () => restart(container),
  };
}

function copySsh({ id, name }: Container, command: string): PaletteDeed {
  return {
    id: `ssh-${id}`,
    group: name,
    name: t.palette.ssh(name),
    icon: Copy,
    command,
    run: async () => {
      await navigator.clipboard.writeText(command);
      toast(t.palette.sshCopied);
    },
  };
}

function places(): PaletteDeed[] {
  const all = [...MAIN, ...ACCESS, ...(personNow()?.isAdmin ? PLATFORM : []), SETTINGS];
  return all.map(({ name, href, icon }) => ({
    id: href,
    group: t.palette.goTo,
    name,
    icon,
    href,
    key: keyOf(href),
  }));
}

const THEMES: readonly (readonly [Theme, IconNode])[] = [
  ['light', Sun],
  ['dark', Moon],
  ['system', SunMoon],
];

function general(): PaletteDeed[] {
  const group = t.palette.doing;
  const most = offer.value?.limits.containers ?? Number.POSITIVE_INFINITY;
  const used = containers.value?.length ?? 0;
  const isFull = used >= most;
  const create: PaletteDeed = {
    id: 'create',
    group,
    name: t.palette.create,
    icon: Plus,
    href: '/containers/new',
    key: 'C',
    command: troupeLine('run'),
    reason: isFull ? t.containers.full(used, most) : undefined,
  };
  const isOn = hasLetterKeys.value;
  const isSpoken = isReadOut.value;
  return [
    create,
    { id: 'find', group, name: t.palette.find, icon: Search, key: '/', after: () => void findOnPage() },
    ...THEMES.filter(([one]) => one !== theme.value).map(([one, icon]) => ({
      id: `theme-${one}`,
      group,
      name: t.palette.theme[one],
      icon,
      after: () => {
        theme.value = one;
      },
    })),
    {
      id: 'letters',
      group,
      name: isOn ? t.palette.keysOff : t.palette.keysOn,
      icon: Keyboard,
      after: () => {
        setLetterKeys(!isOn);
        toast(isOn ? t.palette.keysAreOff : t.palette.keysAreOn);
      },
    },
    {
      id: 'read-out',
      group,
      name: isSpoken ? t.palette.readOutOff : t.palette.readOutOn,
      icon: Speech,
      after: () => {
        setReadOut(!isSpoken);
        toast(isSpoken ? t.palette.isNotReadOut : t.palette.isReadOut);
      },
    },
    {
      id: 'log-out',
      group,
      name: t.palette.logOut,
      icon: LogOut,
      run: logOut,
      asks: true,
      command: troupeLine('logout'),
    },
  ];
}
