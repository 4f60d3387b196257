/** What opens a part of a page that is closed at first: the same wherever there is one. */
import './summary.css';
import { ChevronRight } from 'lucide';
import type { ComponentChildren } from 'preact';
import { Icon } from './icon.tsx';

export function Summary({ children }: { readonly children: ComponentChildren }) {
  return (
    <summary>
      <Icon of={ChevronRight} size={14} />
      {children}
    </summary>
  );
}
