/** Icons: drawings of lucide, 1.5 px strokes, in the colour of the text. */
import type { IconNode } from 'lucide';
import { h } from 'preact';

interface IconProps {
  readonly of: IconNode;
  readonly size?: number;
}

/** Decoration: what it means is said beside it. */
export function Icon({ of, size = 16 }: IconProps) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width={size <= 18 ? 2 : 1.75}
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      {of.map(([tag, attributes], at) => h(tag, { ...attributes, key: at }))}
    </svg>
  );
}
