/** How something is: a shape, a word, a hue. Take the hue away and nothing is lost. */
import './status.css';
import type { ComponentChildren } from 'preact';
import { remOf } from './icon.tsx';

/** The shapes there are. */
export type StatusShape = 'running' | 'waiting' | 'starting' | 'stopped' | 'failed' | 'verified' | 'warn' | 'idle';

const TONES: Readonly<Record<StatusShape, 'ok' | 'busy' | 'bad' | 'warn' | 'idle'>> = {
  running: 'ok',
  verified: 'ok',
  waiting: 'busy',
  starting: 'busy',
  stopped: 'idle',
  idle: 'idle',
  failed: 'bad',
  warn: 'warn',
};

interface StatusProps {
  readonly shape: StatusShape;
  /** The word. Without it, what stands beside says it. */
  readonly children?: ComponentChildren;
}

export function Status({ shape, children }: StatusProps) {
  return (
    <span class={`status ${TONES[shape]}`}>
      <svg width={remOf(12)} height={remOf(12)} viewBox="0 0 12 12" fill="none" aria-hidden="true">
        <Shape of={shape} />
      </svg>
      {children}
    </span>
  );
}

function Shape({ of }: { readonly of: StatusShape }) {
  switch (of) {
    case 'running':
      return <circle cx="6" cy="6" r="4.5" fill="currentColor" />;
    case 'waiting':
      return <circle cx="6" cy="6" r="4.25" stroke="currentColor" stroke-width="1.5" stroke-dasharray="2.4 2.05" />;
    case 'starting':
      return (
        <>
          <circle cx="6" cy="6" r="4.25" stroke="currentColor" stroke-width="1.5" opacity=".3" />
          <path
            class="turn"
            d="M6 1.75A4.25 4.25 0 0 1 10.25 6"
            stroke="currentColor"
            stroke-width="1.75"
            stroke-linecap="round"
          />
        </>
      );
    case 'failed':
      return (
        <>
          <path d="M6 1.1 11.3 10.5H.7z" fill="currentColor" />
          <path d="M6 4.6v2.5M6 8.8v.01" stroke="var(--surface)" stroke-width="1.3" stroke-linecap="round" />
        </>
      );
    case 'verified':
      return (
        <>
          <circle cx="6" cy="6" r="5" fill="currentColor" />
          <path
            d="m3.7 6.1 1.6 1.6 3-3.3"
            stroke="var(--surface)"
            stroke-width="1.4"
            stroke-linecap="round"
            stroke-linejoin="round"
          />
        </>
      );
    case 'warn':
      return <path d="M6 .9 11.1 6 6 11.1.9 6z" fill="currentColor" />;
    case 'stopped':
    case 'idle':
      return <rect x="2" y="2" width="8" height="8" rx="1.25" stroke="currentColor" stroke-width="1.5" />;
  }
}
