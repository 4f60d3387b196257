/** A button with a menu of deeds: a popover, closed by Escape or a press beside it. */
import { Ellipsis, type IconNode } from 'lucide';
import { useId, useRef } from 'preact/hooks';
import { Button } from './button.tsx';
import { Icon } from './icon.tsx';
import { offlineReason } from './offline.ts';

/** A line of a menu: it does something, or leads somewhere. */
interface MenuItem {
  readonly name: string;
  readonly icon: IconNode;
  readonly href?: string;
  readonly onClick?: () => void;
  readonly isDanger?: boolean;
  /** It asks the platform at once, which it cannot while the browser is offline. */
  readonly asks?: boolean;
  /** Why it cannot be done now. */
  readonly reason?: string | undefined;
}

interface MenuProps {
  /** What the button is called. */
  readonly label: string;
  readonly items: readonly MenuItem[];
}

export function Menu({ label, items }: MenuProps) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const toggled = (event: { readonly newState: string }) => {
    const menu = list.current;
    if (menu === null || event.newState !== 'open') return;
    const opener = document.querySelector(`[popovertarget="${CSS.escape(id)}"]`)?.getBoundingClientRect();
    if (opener === undefined) return;
    const { offsetWidth: width, offsetHeight: height } = menu;
    const isBelow = opener.bottom + height + 8 < innerHeight;
    menu.style.left = `${Math.max(8, Math.min(innerWidth - width - 8, opener.right - width))}px`;
    menu.style.top = `${isBelow ? opener.bottom + 4 : Math.max(8, opener.top - height - 4)}px`;
    linesOf(menu)[0]?.focus();
  };
  const close = () => list.current?.hidePopover();
  const keys = (event: KeyboardEvent) => {
    // The focus goes back to the button, and on from there.
    if (event.key === 'Tab') return close();
    const lines = list.current === null ? [] : linesOf(list.current);
    const at = lines.findIndex((line) => line.matches(':focus'));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 + lines.length, Home: 0, End: lines.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    lines[to % lines.length]?.focus();
  };
  return (
    <>
      <Button kind="bare" icon={Ellipsis} label={label} popoverTarget={id} />
      <div
        class="menu"
        id={id}
        popover="auto"
        role="menu"
        aria-label={label}
        ref={list}
        onToggle={toggled}
        onKeyDown={keys}
      >
        {items.map((item) => (
          <MenuLine key={item.name} item={item} close={close} />
        ))}
      </div>
    </>
  );
}

function MenuLine({ item, close }: { readonly item: MenuItem; readonly close: () => void }) {
  const { name, icon, href, onClick, isDanger, asks = false } = item;
  const reason = item.reason ?? offlineReason(asks);
  const look = isDanger ? 'danger' : '';
  if (href !== undefined)
    return (
      <a class={look} role="menuitem" tabIndex={-1} href={href} onClick={close}>
        <Icon of={icon} />
        {name}
      </a>
    );
  const press = () => {
    if (reason !== undefined) return;
    close();
    onClick?.();
  };
  return (
    <button
      class={look}
      type="button"
      role="menuitem"
      tabIndex={-1}
      onClick={press}
      aria-disabled={reason === undefined ? undefined : true}
    >
      <Icon of={icon} />
      <span>
        {name} {reason !== undefined && <span class="why">{reason}</span>}
      </span>
    </button>
  );
}

function linesOf(menu: HTMLElement): HTMLElement[] {
  return [...menu.querySelectorAll<HTMLElement>('[role="menuitem"]')];
}
