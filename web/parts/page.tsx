/** The frame of every screen: its title, which gets the focus when somebody comes here, and what stands beside it. */
import './page.css';
import { ChevronLeft } from 'lucide';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { place } from '../core/router.ts';
import { t } from '../text/text.ts';
import { Icon } from './icon.tsx';

interface PageProps {
  readonly title: string;
  /** A sentence below the title. */
  readonly lead?: ComponentChildren;
  /** The main button, and others. */
  readonly actions?: ComponentChildren;
  /** The screen above this one. */
  readonly up?: readonly [name: string, href: string];
  readonly narrow?: boolean;
  readonly children: ComponentChildren;
}

export function Page({ title, lead, actions, up, narrow, children }: PageProps) {
  const heading = useTitle(title);
  return (
    <main class={`page ${narrow ? 'narrow' : ''}`} id="main">
      <header class="head">
        <div>
          {up !== undefined && (
            <nav class="crumbs" aria-label={t.shell.crumbs}>
              <Icon of={ChevronLeft} size={12} />
              <a href={up[1]}>{up[0]}</a>
            </nav>
          )}
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {lead !== undefined && <div class="dim small">{lead}</div>}
        </div>
        {actions}
      </header>
      {children}
    </main>
  );
}

/** Whether a page has been shown before: the first one leaves the focus where the browser puts it. */
let isFirst = true;

/** Names the tab, and moves the focus to the heading after a navigation. */
export function useTitle(title: string) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · ${t.product}`;
  }, [title]);
  const { path } = place.value;
  useEffect(() => {
    if (isFirst) isFirst = false;
    else heading.current?.focus({ preventScroll: true });
  }, [path]);
  return heading;
}
