/** What stands in the place of something: a failure with its next step, nothing yet, not there yet. */
import './note.css';
import type { IconNode } from 'lucide';
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { TroupeError } from '../../client/index.ts';
import { now } from '../core/clock.ts';
import type { LoadedData } from '../core/resource.ts';
import { t } from '../text/text.ts';
import { Button } from './button.tsx';
import { Icon } from './icon.tsx';
import { Status, type StatusShape } from './status.tsx';

interface NoteProps {
  readonly tone: 'bad' | 'warn' | 'busy' | 'ok';
  readonly children: ComponentChildren;
}

const SHAPES: Readonly<Record<NoteProps['tone'], StatusShape>> = {
  bad: 'failed',
  warn: 'warn',
  busy: 'starting',
  ok: 'verified',
};

export function Note({ tone, children }: NoteProps) {
  return (
    <div class={`note ${tone}`} role={tone === 'bad' ? 'alert' : 'status'}>
      <Status shape={SHAPES[tone]} />
      <div>{children}</div>
    </div>
  );
}

interface FailureProps {
  readonly error: TroupeError | undefined;
  /** Tries again. */
  readonly onRetry?: () => void;
  /** Whether a button beside it says how long to wait. */
  readonly isWaitSaid?: boolean;
}

/** What happened, the request's id where the platform is at fault, and when another attempt makes sense. */
export function Failure({ error, onRetry, isWaitSaid = false }: FailureProps) {
  const left = useSecondsLeft(error);
  if (error === undefined) return null;
  const isOurs = error.status >= 500 && error.requestId !== undefined;
  const wait = left > 0 ? t.failure.wait(left) : undefined;
  return (
    <Note tone="bad">
      {t.failure.sentence(error)}
      {isOurs && <span class="id">{t.failure.request(error.requestId ?? '')}</span>}
      {wait !== undefined && onRetry === undefined && !isWaitSaid && <span class="num"> {wait}</span>}
      {onRetry !== undefined && (
        <div>
          <Button onClick={onRetry} reason={wait}>
            {wait ?? t.failure.again}
          </Button>
        </div>
      )}
    </Note>
  );
}

/** Seconds until another attempt makes sense. */
export function useSecondsLeft(error: TroupeError | undefined): number {
  const [until, setUntil] = useState(0);
  useEffect(() => setUntil(Date.now() + (error?.retryAfter ?? 0) * 1000), [error]);
  if (error?.retryAfter === undefined) return 0;
  // The clock of the page may be a second behind.
  return Math.max(0, Math.min(Math.ceil(error.retryAfter), Math.ceil((until - now.value) / 1000)));
}

interface EmptyProps {
  readonly icon: IconNode;
  readonly title: string;
  readonly lead?: string;
  readonly children?: ComponentChildren;
}

/** Nothing here: what it is for, and what to do. */
export function Empty({ icon, title, lead, children }: EmptyProps) {
  return (
    <div class="empty">
      <span class="picture">
        <Icon of={icon} size={28} />
      </span>
      <h2>{title}</h2>
      {lead !== undefined && <p>{lead}</p>}
      {children}
    </div>
  );
}

/** Shapes of what is about to come. They show up when it takes long. */
export function Bones({ tall, many = 1 }: { readonly tall: number; readonly many?: number }) {
  return (
    <div class="bones" role="status" aria-label={t.shell.loading}>
      {Array.from({ length: many }, (_, at) => (
        <i key={String(at)} style={{ '--tall': `${tall}px` }} />
      ))}
    </div>
  );
}

interface LoadingProps {
  readonly data: LoadedData<unknown>;
  readonly tall?: number;
  readonly many?: number;
}

/** What stands where data is not there yet, or is old because it could not be asked for again. */
export function Loading({ data, tall = 44, many = 1 }: LoadingProps) {
  return (
    <>
      <Failure error={data.error} onRetry={data.reload} />
      {data.value === undefined && data.error === undefined && <Bones tall={tall} many={many} />}
    </>
  );
}
