/** How much the account may have. */
import { offer } from '../../live/facts.ts';
import { Panel } from '../../parts/panel.tsx';
import { t } from '../../text/text.ts';

export function Limits() {
  const limits = offer.value?.limits;
  if (limits === undefined) return null;
  return (
    <Panel title={t.settings.limits}>
      <div class="inside stack">
        <p>{t.settings.limitsAre(limits.containers, limits.ssh_keys, limits.images_mb)}</p>
        <p class="small dim">{t.settings.limitsRaised}</p>
      </div>
    </Panel>
  );
}
