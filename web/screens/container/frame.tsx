/** The frame of a container's screens: its name and state, what can be done, and its parts. */
import './frame.css';
import { ChevronRight, CircleSlash, Play, Square, Trash } from 'lucide';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { addressOfSite, type Container, readableHost } from '../../../client/index.ts';
import { now } from '../../core/clock.ts';
import { span } from '../../core/format.ts';
import { place } from '../../core/router.ts';
import { outlook } from '../../live/facts.ts';
import { containers } from '../../live/live.ts';
import { Button } from '../../parts/button.tsx';
import { Icon } from '../../parts/icon.tsx';
import { Menu } from '../../parts/menu.tsx';
import { Bones, Failure } from '../../parts/note.tsx';
import { useTitle } from '../../parts/page.tsx';
import { containerShape, containerWord } from '../../parts/shape.ts';
import { Status } from '../../parts/status.tsx';
import { t } from '../../text/text.ts';
import { DeadEnd } from '../missing/missing.tsx';
import { DeleteContainer, useStart, useStop } from './deeds.tsx';
import { OpenSite } from './open-site.tsx';

interface ContainerFrameProps {
  readonly id: string;
  readonly children: (container: Container) => ComponentChildren;
}

/** Shows the container once it is known, or that it is not there. */
export function ContainerFrame({ id, children }: ContainerFrameProps) {
  const list = containers.value;
  const container = list?.find((one) => one.id === id);
  if (container !== undefined) return <Known container={container}>{children(container)}</Known>;
  if (list === undefined)
    return (
      <main class="page" id="main">
        <Bones tall={96} many={3} />
      </main>
    );
  const title = t.container.gone;
  const up = [t.shell.containers, '/containers'] as const;
  return <DeadEnd title={title} up={up} icon={CircleSlash} lead={title} why={t.container.goneLead} />;
}

/** The parts of a container's page, below its address. */
const PARTS: readonly (readonly [end: string, name: string])[] = [
  ['', t.container.workbench],
  ['/network', t.container.network],
  ['/storage', t.container.storage],
  ['/ssh', t.container.ssh],
  ['/history', t.container.history],
  ['/settings', t.container.settings],
];

function Known({ container, children }: { readonly container: Container; readonly children: ComponentChildren }) {
  const { id, name } = container;
  const heading = useTitle(name);
  return (
    <main class="page of-container" id="main">
      <header class="head">
        <div>
          <nav class="crumbs" aria-label={t.shell.crumbs}>
            <a href="/containers">{t.shell.containers}</a>
            <Icon of={ChevronRight} size={12} />
            <span class="mono">{id}</span>
          </nav>
          <div class="titled">
            <h1 ref={heading} tabIndex={-1}>
              {name}
            </h1>
            <span aria-live="polite">
              <Status shape={containerShape(container)}>{stateWords(container)}</Status>
            </span>
          </div>
        </div>
        <Deeds container={container} />
      </header>
      <Parts container={container} />
      {children}
    </main>
  );
}

function Parts({ container: { id, name } }: { readonly container: Container }) {
  const { path } = place.value;
  const all = useRef<HTMLElement>(null);
  // On a phone they do not all fit beside each other.
  useEffect(() => {
    all.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [path]);
  return (
    <nav class="tabs" aria-label={t.container.parts(name)} ref={all}>
      {PARTS.map(([end, part]) => {
        const href = `/containers/${id}${end}`;
        return (
          <a key={href} href={href} aria-current={path === href ? 'page' : undefined}>
            {part}
          </a>
        );
      })}
    </nav>
  );
}

function stateWords(container: Container): string {
  const { status, health, started_at } = container;
  const isWell = health === undefined || health === null || health === 'healthy';
  if (status !== 'running' || !isWell || started_at === undefined) return containerWord(container);
  return t.container.runningFor(span(now.value - Date.parse(started_at)));
}

function Deeds({ container }: { readonly container: Container }) {
  const { name, status, ports = [] } = container;
  const [isDeleting, setDeleting] = useState(false);
  const start = useStart(container);
  const stop = useStop(container);
  const isStill = status === 'stopped' || status === 'failed';
  const error = start.error ?? stop.error;
  return (
    <div class="stack tight">
      <div class="row">
        {isStill ? (
          <Button icon={Play} onClick={() => void start.run()} busy={start.isBusy}>
            {t.containers.start}
          </Button>
        ) : (
          <Button icon={Square} onClick={() => void stop.run()} busy={stop.isBusy}>
            {t.containers.stop}
          </Button>
        )}
        {ports.some(({ port }) => port === 443) && (
          <OpenSite container={container} href={addressOfSite(readableHost(container), 'https', outlook())} />
        )}
        <Menu
          label={t.container.more(name)}
          items={[{ name: t.containers.delete, icon: Trash, isDanger: true, onClick: () => setDeleting(true) }]}
        />
      </div>
      <Failure error={error} />
      {isDeleting && <DeleteContainer container={container} onClose={() => setDeleting(false)} />}
    </div>
  );
}
