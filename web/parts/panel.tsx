/** Panels, and the facts in them. */
import './panel.css';
import type { ComponentChildren } from 'preact';

interface PanelProps {
  readonly title?: string;
  /** What stands beside the title. */
  readonly aside?: ComponentChildren;
  readonly class?: string;
  readonly children: ComponentChildren;
}

export function Panel({ title, aside, class: more = '', children }: PanelProps) {
  return (
    <section class={`panel ${more}`} aria-label={title}>
      {title !== undefined && (
        <header>
          <h2>{title}</h2>
          {aside}
        </header>
      )}
      {children}
    </section>
  );
}

/** Names and what they stand for, side by side. */
export function Facts({ of }: { readonly of: readonly (readonly [name: string, value: ComponentChildren])[] }) {
  return (
    <dl class="panel facts">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
