/** Whether the page is live, in a line and, when it is not, in a banner that says how old it is. */

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { now } from '../core/clock.ts';
import { isOnline } from '../core/online.ts';
import { session } from '../core/session.ts';
import { link, wake } from '../live/live.ts';
import { Button } from '../parts/button.tsx';
import { Status } from '../parts/status.tsx';
import { t } from '../text/text.ts';

/** A connection that comes back so soon was not worth a word, ms. */
const PATIENCE_MS = 2000;

export function LinkLine() {
  const { state } = link.value;
  // Offline, the banner says how it is.
  if (session.value.state !== 'active' || !isOnline.value) return null;
  return (
    <p class="link-state">
      {state === 'live' ? (
        <Status shape="running">{t.link.live}</Status>
      ) : (
        <Status shape="starting">{t.link.connecting}</Status>
      )}
    </p>
  );
}

export function LinkBanner() {
  const since = useSignal<number | undefined>(undefined);
  const { value } = link;
  const isAway = value.state === 'waiting' || value.state === 'connecting';
  useEffect(() => {
    if (!isAway) since.value = undefined;
    else since.value ??= Date.now();
  }, [isAway]);
  if (session.value.state !== 'active') return null;
  if (!isOnline.value)
    return (
      <div class="banner" role="status">
        <Status shape="stopped">{t.link.offline}</Status>
      </div>
    );
  if (since.value === undefined || now.value - since.value < PATIENCE_MS) return null;
  const left = value.state === 'waiting' ? Math.max(0, Math.ceil((value.retryAt - now.value) / 1000)) : 0;
  return (
    <div class="banner" role="status">
      <Status shape="warn">{left > 0 ? t.link.waiting(left) : t.link.reconnecting}</Status>
      {left > 0 && (
        <Button kind="bare" onClick={() => wake()}>
          {t.link.now}
        </Button>
      )}
    </div>
  );
}
