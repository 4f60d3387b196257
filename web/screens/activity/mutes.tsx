/** What somebody does not want to be told. */
import { BellOff } from 'lucide';
import { useDeed } from '../../core/deed.ts';
import { call, client } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import { Button } from '../../parts/button.tsx';
import { Failure } from '../../parts/note.tsx';
import { Panel } from '../../parts/panel.tsx';
import { RowOf, Rows } from '../../parts/rows.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';
import { categoryName } from './delivery/categories.tsx';

/** `categories`: those that there are notifications of. */
export function Mutes({ categories }: { readonly categories: readonly string[] }) {
  const mutes = useLoaded((signal) => client.call('listMutes', undefined, { signal }));
  const mute = useDeed(async (category: string) => {
    await call('addMute', { body: { category, scope: '' } });
    toast(t.activity.muted(categoryName(category)));
    mutes.reload();
  });
  const unmute = useDeed(async (category: string, scope: string) => {
    await call('removeMute', { body: { category, scope } });
    toast(t.activity.unmuted(categoryName(category)));
    mutes.reload();
  });
  const list = mutes.value ?? [];
  const free = categories.filter((one) => !list.some(({ category, scope }) => category === one && scope === ''));
  return (
    <Panel title={t.activity.mutes}>
      <Failure error={mutes.error} onRetry={mutes.reload} />
      <Failure error={mute.error ?? unmute.error} />
      {list.length === 0 && <p class="inside faint small">{t.activity.noMutes}</p>}
      <Rows>
        {list.map(({ id, category, scope }) => (
          <RowOf
            key={id}
            name={categoryName(category)}
            about={[scope === '' ? t.activity.whole : scope]}
            actions={<Button onClick={() => void unmute.run(category, scope)}>{t.activity.unmute}</Button>}
          />
        ))}
      </Rows>
      {free.length > 0 && (
        <div class="foot row wrap">
          {free.map((category) => (
            <Button key={category} kind="bare" icon={BellOff} onClick={() => void mute.run(category)}>
              {t.activity.mute(categoryName(category))}
            </Button>
          ))}
        </div>
      )}
    </Panel>
  );
}
