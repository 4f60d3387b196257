import { remOf } from './icon.tsx';

/** The mark: a stage with its players. */
export function Mark({ size = 22 }: { readonly size?: number }) {
  return (
    <svg class="mark" width={remOf(size)} height={remOf(size)} viewBox="0 0 24 24" fill="none" aria-hidden="true">
      <path d="M2.5 20.5V12a9.5 9.5 0 0 1 19 0v8.5" stroke="currentColor" stroke-width="2.25" stroke-linecap="round" />
      <circle cx="12" cy="12.25" r="2.5" fill="var(--accent)" />
      <path
        d="M7 20.5v-2.25a1.75 1.75 0 0 1 3.5 0v2.25M13.5 20.5v-2.25a1.75 1.75 0 0 1 3.5 0v2.25"
        stroke="currentColor"
        stroke-width="2"
        stroke-linecap="round"
      />
    </svg>
  );
}
