/** What the administrator's screens have in common: nobody else sees them, and what they show is asked for again. */
import { ShieldAlert } from 'lucide';
import type { ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import { type LoadedData, useLoaded } from '../../core/resource.ts';
import type { ScreenProps } from '../../core/router.ts';
import { personNow } from '../../core/session.ts';
import { t } from '../../text/text.ts';
import { DeadEnd } from '../missing/missing.tsx';

/** How often it is asked for again while the page is seen, ms. */
const PERIOD_MS = 10_000;

/** The screen for the administrator; for all others, that it is not theirs. */
export function forAdministrator(Shown: ComponentType): ComponentType<ScreenProps> {
  return () =>
    personNow()?.isAdmin ? (
      <Shown />
    ) : (
      <DeadEnd
        title={t.platform.refused}
        icon={ShieldAlert}
        lead={t.platform.refusedLead}
        why={t.platform.refusedWhy}
      />
    );
}

/** As `useLoaded`, and again every 10 s. */
export function usePolled<T>(load: (signal: AbortSignal) => Promise<T>, keys: readonly unknown[] = []): LoadedData<T> {
  const data = useLoaded(load, keys);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) data.reload();
    }, PERIOD_MS);
    return () => clearInterval(timer);
  }, []);
  return data;
}
