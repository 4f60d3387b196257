/** The frame of all screens: where one can go, who one is, and whether what is shown is true now. */
import './shell.css';
import { Menu as MenuIcon, Settings as SettingsIcon } from 'lucide';
import type { ComponentChildren } from 'preact';
import { ACCESS, isAlone, isAt, MAIN, type NavPlace, PLATFORM, SETTINGS } from '../core/places.ts';
import { place } from '../core/router.ts';
import { personNow } from '../core/session.ts';
import { unread } from '../live/live.ts';
import { Mark } from '../parts/brand.tsx';
import { Icon } from '../parts/icon.tsx';
import { t } from '../text/text.ts';
import { LinkBanner, LinkLine } from './link.tsx';
import { PaletteButton, PaletteHost, PaletteIcon } from './palette.tsx';

const MORE: NavPlace = { name: t.shell.more, href: '/more', icon: MenuIcon };

export function Shell({ children }: { readonly children: ComponentChildren }) {
  if (isAlone(place.value.path)) return children;
  return (
    <>
      <a class="skip" href="#main">
        {t.shell.skip}
      </a>
      <div class="shell">
        <Rail />
        <TopBar />
        <div>
          <LinkBanner />
          {children}
        </div>
        <nav class="tabbar" aria-label={t.shell.short}>
          {[...MAIN, MORE].map((to) => (
            <NavLink key={to.href} to={to} size={20} />
          ))}
        </nav>
      </div>
      <PaletteHost />
    </>
  );
}

function Rail() {
  return (
    <nav class="rail" aria-label={t.shell.main}>
      <a class="brand" href="/containers">
        <Mark />
        {t.product}
        <small class="cut">{location.hostname}</small>
      </a>
      <PaletteButton />
      <NavList of={MAIN} />
      <p class="group">{t.shell.access}</p>
      <NavList of={ACCESS} />
      {personNow()?.isAdmin && (
        <>
          <p class="group">{t.platform.group}</p>
          <NavList of={PLATFORM} />
        </>
      )}
      <div class="foot">
        <LinkLine />
        <Me />
      </div>
    </nav>
  );
}

function NavList({ of }: { readonly of: readonly NavPlace[] }) {
  return (
    <ul class="nav">
      {of.map((to) => (
        <li key={to.href}>
          <NavLink to={to} size={16} />
        </li>
      ))}
    </ul>
  );
}

function NavLink({ to, size }: { readonly to: NavPlace; readonly size: number }) {
  const isHere = isAt(to, place.value.path);
  const isActivity = to.href === '/activity' && unread.value > 0;
  return (
    <a href={to.href} aria-current={isHere ? 'page' : undefined}>
      <Icon of={to.icon} size={size} />
      {to.name}
      {isActivity && (
        <span class="tally">
          {Math.min(unread.value, 99)}
          <span class="sr"> {t.shell.unread}</span>
        </span>
      )}
    </a>
  );
}

function TopBar() {
  const person = personNow();
  return (
    <header class="topbar">
      <a class="brand" href="/containers">
        <Mark />
        {t.product}
      </a>
      <PaletteIcon />
      <a href={SETTINGS.href} aria-label={SETTINGS.name}>
        <span class="face">{initials(person?.displayName ?? '')}</span>
      </a>
    </header>
  );
}

function Me() {
  const person = personNow();
  if (person === undefined) return null;
  return (
    <a class="me" href={SETTINGS.href} aria-current={isAt(SETTINGS, place.value.path) ? 'page' : undefined}>
      <span class="face" aria-hidden="true">
        {initials(person.displayName)}
      </span>
      <span class="cut">{person.displayName}</span>
      <span class="sr">, {SETTINGS.name}</span>
      <Icon of={SettingsIcon} />
    </a>
  );
}

/** `MK` of `Mira Kovac`. */
function initials(name: string): string {
  const words = name.split(/[\s._-]+/).filter((word) => word !== '');
  const [first = '', last = ''] = [words[0], words.length > 1 ? words.at(-1) : ''];
  return `${[...first][0] ?? ''}${[...last][0] ?? ''}`.toUpperCase();
}
