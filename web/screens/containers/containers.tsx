/** The first page: the containers, as they are now, and what happened last. */
import './containers.css';
import { Box, Plus } from 'lucide';
import { byName } from '../../core/name-order.ts';
import { offer } from '../../live/facts.ts';
import { containers, recent } from '../../live/live.ts';
import { Button, LinkButton } from '../../parts/button.tsx';
import { AsCommand } from '../../parts/copy.tsx';
import { Bones, Empty } from '../../parts/note.tsx';
import { Page } from '../../parts/page.tsx';
import { Panel } from '../../parts/panel.tsx';
import { t } from '../../text/text.ts';
import { Feed } from '../activity/feed.tsx';
import { ContainerUnit } from './unit.tsx';

/** How many of the newest notifications stand beside the list. */
const BESIDE = 5;
/** More are told in words alone. */
const MOST_DOTS = 12;
/** The sentence that says why there is no room. */
const FULL = 'containers-full';

export function Containers() {
  const list = containers.value;
  const most = offer.value?.limits.containers;
  const isFull = list !== undefined && most !== undefined && list.length >= most;
  return (
    <Page
      title={t.shell.containers}
      lead={list !== undefined && most !== undefined && <Slots used={list.length} most={most} />}
      actions={
        isFull ? (
          <Button kind="main" icon={Plus} reason={t.containers.full(list.length, most)} describedBy={FULL}>
            {t.containers.add}
          </Button>
        ) : (
          // Where there is none, the empty stage has the main button.
          <LinkButton kind={list?.length === 0 ? 'plain' : 'main'} icon={Plus} href="/containers/new">
            {t.containers.add}
          </LinkButton>
        )
      }
    >
      <div class="split">
        <section class="stack" aria-label={t.containers.yours}>
          {list === undefined ? (
            <Bones tall={132} many={2} />
          ) : list.length === 0 ? (
            <NoContainers />
          ) : (
            [...list].sort(byName).map((container) => <ContainerUnit key={container.id} container={container} />)
          )}
        </section>
        <aside class="stack" aria-label={t.shell.activity}>
          <Panel
            title={t.shell.activity}
            aside={
              <LinkButton kind="bare" href="/activity">
                {t.containers.all}
              </LinkButton>
            }
          >
            <Feed of={recent.value?.slice(0, BESIDE)} />
          </Panel>
        </aside>
      </div>
    </Page>
  );
}

function Slots({ used, most }: { readonly used: number; readonly most: number }) {
  return (
    <p class="slots" id={FULL}>
      {most <= MOST_DOTS && (
        <span aria-hidden="true">
          {Array.from({ length: most }, (_, at) => (
            <i key={String(at)} class={at < used ? 'on' : ''} />
          ))}
        </span>
      )}
      {used >= most ? t.containers.full(used, most) : t.containers.used(used, most)}
    </p>
  );
}

function NoContainers() {
  return (
    <div class="panel">
      <Empty icon={Box} title={t.containers.none} lead={t.containers.noneLead}>
        <LinkButton kind="main" icon={Plus} href="/containers/new">
          {t.containers.add}
        </LinkButton>
        <AsCommand troupe="troupe run first --ssh --shell" />
      </Empty>
    </div>
  );
}
