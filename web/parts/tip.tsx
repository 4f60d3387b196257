/** The sentence beside a button that cannot be pressed now. */
import './tip.css';
import type { RefObject } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

interface TipProps {
  readonly id: string;
  readonly text: string;
  /** The button, which names `id` as its description. */
  readonly of: RefObject<HTMLElement | null>;
}

/** Shown when the keyboard comes to the button, and when the button is pressed; Escape hides it. */
export function Tip({ id, text, of }: TipProps) {
  const tip = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    const [sentence, button] = [tip.current, of.current];
    if (sentence === null || button === null) return;
    const ends = new AbortController();
    const { signal } = ends;
    const isShown = () => sentence.matches(':popover-open');
    const place = () => {
      if (isShown()) placeBeside(sentence, button);
    };
    const show = () => {
      if (!isShown()) sentence.showPopover();
      place();
    };
    const hide = () => sentence.hidePopover();
    const focused = () => {
      if (button.matches(':focus-visible')) show();
    };
    // Enter in a field of a form presses its button, too, which is then not left: who types on has read it.
    const pressed = () => {
      show();
      if (!button.matches(':focus')) for (const sign of LEFT) addEventListener(sign, hide, { signal, once: true });
    };
    const escaped = (event: KeyboardEvent) => {
      if (event.key === 'Escape') hide();
    };
    button.addEventListener('focus', focused, { signal });
    button.addEventListener('click', pressed, { signal });
    button.addEventListener('blur', hide, { signal });
    button.addEventListener('keydown', escaped, { signal });
    addEventListener('scroll', place, { signal, capture: true });
    addEventListener('resize', place, { signal });
    return () => ends.abort();
  }, []);
  return (
    <span class="tip" id={id} role="tooltip" popover="manual" ref={tip}>
      {text}
    </span>
  );
}

/** That somebody who pressed Enter in a field goes on. */
const LEFT = ['input', 'focusin', 'pointerdown'] as const;

/** How far it is from the button, and from the edges of the page, px. */
const [GAP, EDGE] = [6, 8];

/** Below the button, or above it where there is no room. */
function placeBeside(tip: HTMLElement, button: HTMLElement): void {
  const { left, top, bottom } = button.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = tip;
  const isBelow = bottom + GAP + height + EDGE < innerHeight;
  tip.style.left = `${Math.max(EDGE, Math.min(innerWidth - width - EDGE, left))}px`;
  tip.style.top = `${isBelow ? bottom + GAP : Math.max(EDGE, top - height - GAP)}px`;
}
