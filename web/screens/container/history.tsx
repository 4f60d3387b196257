/** What happened to a container: what it ran, and the notifications that lead to it. */
import { client } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import type { ScreenProps } from '../../core/router.ts';
import { recent } from '../../live/live.ts';
import { Failure } from '../../parts/note.tsx';
import { Panel } from '../../parts/panel.tsx';
import { t } from '../../text/text.ts';
import { Feed } from '../activity/feed.tsx';
import { ContainerFrame } from './frame.tsx';
import { Revisions } from './revisions.tsx';

/** As many as the platform gives at a time. */
const MOST = '100';

export function History({ params: { id = '' } }: ScreenProps) {
  // Again when something new has come.
  const newest = recent.value?.[0]?.id;
  const all = useLoaded(
    (signal) => client.call('listNotifications', { query: { limit: MOST } }, { signal }),
    [id, newest],
  );
  const own = all.value?.filter(({ link }) => link.startsWith(`/containers/${id}`));
  return (
    <ContainerFrame id={id}>
      {(container) => (
        <div class="stack">
          <Revisions container={container} />
          <Panel title={t.container.happened}>
            {all.error === undefined ? <Feed of={own} /> : <Failure error={all.error} onRetry={all.reload} />}
          </Panel>
        </div>
      )}
    </ContainerFrame>
  );
}
