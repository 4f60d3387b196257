/** The frame of what is done without a session: one sheet on a stage. */
import './login.css';
import type { ComponentChildren } from 'preact';
import { Mark } from '../../parts/brand.tsx';
import { useTitle } from '../../parts/page.tsx';

/** Arches of a stage, one behind the other. */
const ARCHES: readonly (readonly [d: string, opacity: number])[] = [
  ['M440 2400V700a260 242 0 0 1 520 0V2400', 1],
  ['M355 2400V700a345 321 0 0 1 690 0V2400', 0.83],
  ['M260 2400V700a440 409 0 0 1 880 0V2400', 0.66],
  ['M150 2400V700a550 512 0 0 1 1100 0V2400', 0.49],
  ['m20 2400V700a680 632 0 0 1 1360 0V2400', 0.32],
];

interface GateProps {
  /** What the tab is named. */
  readonly name: string;
  readonly title: string;
  /** A sentence below the title. */
  readonly lead?: ComponentChildren;
  readonly children: ComponentChildren;
  /** Below the stage. */
  readonly foot?: ComponentChildren;
}

export function Gate({ name, title, lead, children, foot }: GateProps) {
  useTitle(name);
  return (
    <div class="gate">
      <main id="main">
        <svg class="arch" viewBox="0 0 1400 760" fill="none" stroke="currentColor" aria-hidden="true">
          {ARCHES.map(([d, opacity]) => (
            <path key={d} d={d} stroke-width="1" opacity={opacity} />
          ))}
        </svg>
        <div class="sheet">
          <div class="who">
            <Mark size={34} />
            <div>
              <h1>{title}</h1>
              {lead !== undefined && <p class="dim small">{lead}</p>}
            </div>
          </div>
          {children}
        </div>
      </main>
      {foot !== undefined && <footer>{foot}</footer>}
    </div>
  );
}
