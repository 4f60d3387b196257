/** Things in a panel, one a row: what it is, then what can be done. */
import './list.css';
import type { ComponentChildren } from 'preact';

export function Rows({ children }: { readonly children: ComponentChildren }) {
  return <ul class="rows">{children}</ul>;
}

interface RowsOfProps<T> {
  readonly list: readonly T[];
  /** What stands there while there are none. */
  readonly none: ComponentChildren;
  readonly children: (one: T) => ComponentChildren;
}

export function RowsOf<T>({ list, none, children }: RowsOfProps<T>) {
  return list.length === 0 ? none : <Rows>{list.map(children)}</Rows>;
}

interface RowOfProps {
  readonly name: ComponentChildren;
  /** Facts below the name. */
  readonly about?: readonly ComponentChildren[];
  readonly actions?: ComponentChildren;
  /** As wide as the row, below the rest. */
  readonly children?: ComponentChildren;
}

export function RowOf({ name, about = [], actions, children }: RowOfProps) {
  return (
    <li>
      <div class="what">
        <b>{name}</b>
        {about.length > 0 && (
          <p>
            {about.map((fact, at) => (
              <span key={String(at)}>{fact}</span>
            ))}
          </p>
        )}
      </div>
      {actions !== undefined && <div class="row">{actions}</div>}
      {children !== undefined && children !== false && <div class="whole">{children}</div>}
    </li>
  );
}
