/** Icons: drawings of lucide, 1.5 px strokes, in the colour of the text. */
import type { IconNode } from 'lucide';
import { h } from 'preact';

interface IconProps {
  readonly of: IconNode;
  readonly size?: number;
}

/** Pixels of the text of the page (base.css), which is 1rem. */
const ROOT_PX = 14;

/** A length that grows with the text that is set in the browser, for a drawing of so many pixels. */
export function remOf(px: number): string {
  return `${px / ROOT_PX}rem`;
}

/** Decoration: what it means is said beside it. */
export function Icon({ of, size = 16 }: IconProps) {
  return (
    <svg
      width={remOf(size)}
      height={remOf(size)}
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
