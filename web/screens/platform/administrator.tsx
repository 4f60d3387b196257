/** What the administrator's screens have in common: nobody else sees them, and what they show is asked for again. */
import { ShieldAlert } from 'lucide';
import type { ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import { type LoadedData, useLoaded } from '../../core/resource.ts';
import type { ScreenProps } from '../../core/router.ts';
import { personNow } from '../../core/session.ts';
import { LinkButton } from '../../parts/button.tsx';
import { Bones, Empty, Failure } from '../../parts/note.tsx';
import { Page } from '../../parts/page.tsx';
import { t } from '../../text/text.ts';

/** How often it is asked for again while the page is seen, ms. */
const PERIOD_MS = 10_000;

/** The screen for the administrator; for all others, that it is not theirs. */
export function forAdministrator(Shown: ComponentType): ComponentType<ScreenProps> {
  return () => (personNow()?.isAdmin ? <Shown /> : <NotYours />);
}

function NotYours() {
  return (
    <Page title={t.platform.refused} narrow>
      <Empty icon={ShieldAlert} title={t.platform.refusedLead}>
        <p>{t.platform.refusedWhy}</p>
        <LinkButton href="/containers" kind="main">
          {t.missing.back}
        </LinkButton>
      </Empty>
    </Page>
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

/** What stands where data is not there yet, or is old because it could not be asked for again. */
export function Loading({ data, tall = 44, many = 5 }: LoadingProps) {
  return (
    <>
      <Failure error={data.error} onRetry={data.reload} />
      {data.value === undefined && data.error === undefined && <Bones tall={tall} many={many} />}
    </>
  );
}

interface LoadingProps {
  readonly data: LoadedData<unknown>;
  readonly tall?: number;
  readonly many?: number;
}
