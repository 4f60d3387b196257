/** Hostnames of one's own: where each leads, and what to enter where its DNS is kept. */
import { Globe } from 'lucide';
import { useEffect, useState } from 'preact/hooks';
import { client } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import { place } from '../../core/router.ts';
import { AddButton } from '../../parts/button.tsx';
import { Empty, Loading } from '../../parts/note.tsx';
import { Page } from '../../parts/page.tsx';
import { Panel } from '../../parts/panel.tsx';
import { RowsOf } from '../../parts/rows.tsx';
import { t } from '../../text/text.ts';
import { MapHostname } from './add.tsx';
import { HostnameRow } from './row.tsx';

/** While a name waits for its record, the list is asked for again, ms. */
const REFRESH_MS = 5000;

export function Hostnames() {
  const container = place.value.query.get('container') ?? '';
  const [isAdding, setAdding] = useState(container !== '');
  const mappings = useLoaded(async (signal) => (await client.call('listMappings', undefined, { signal })).domains);
  const isWaiting = mappings.value?.some(({ status }) => status === 'pending') ?? false;
  useEffect(() => {
    if (!isWaiting) return;
    const timer = setInterval(() => {
      if (!document.hidden) mappings.reload();
    }, REFRESH_MS);
    return () => clearInterval(timer);
  }, [isWaiting]);
  return (
    <Page
      title={t.shell.hostnames}
      lead={t.hostnames.lead}
      actions={<AddButton name={t.hostnames.add} onClick={() => setAdding(true)} />}
      narrow
    >
      <div class="stack">
        <Loading data={mappings} tall={72} many={2} />
        {mappings.value !== undefined && (
          <Panel>
            <RowsOf
              list={mappings.value}
              none={<Empty icon={Globe} title={t.hostnames.none} lead={t.hostnames.noneLead} />}
            >
              {(mapping) => <HostnameRow key={mapping.id} mapping={mapping} onChange={mappings.reload} />}
            </RowsOf>
          </Panel>
        )}
      </div>
      {isAdding && <MapHostname container={container} onClose={() => setAdding(false)} onAdded={mappings.reload} />}
    </Page>
  );
}
