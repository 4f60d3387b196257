/** One container in the list: how it is, what it uses or why it ended, and what can be done. */
import { Globe, HardDrive, Play, ScrollText, Settings, Square, SquareTerminal, Trash } from 'lucide';
import { useState } from 'preact/hooks';
import { addressOfSite, type Container, readableHost } from '../../../client/index.ts';
import { now } from '../../core/clock.ts';
import { bytesOf, exactTime, megabytes, percent, span, spanExactly } from '../../core/format.ts';
import { outlook } from '../../live/facts.ts';
import { useHistory } from '../../live/history.ts';
import { usage } from '../../live/live.ts';
import { Button, LinkButton } from '../../parts/button.tsx';
import { Icon } from '../../parts/icon.tsx';
import { Menu } from '../../parts/menu.tsx';
import { Spark } from '../../parts/plot.tsx';
import { containerShape, containerWord } from '../../parts/shape.ts';
import { Status } from '../../parts/status.tsx';
import { t } from '../../text/text.ts';
import { DeleteContainer, useStart, useStop } from '../container/deeds.tsx';

const GIB = 1024 ** 3;

export function ContainerUnit({ container }: { readonly container: Container }) {
  const { id, name, instance_type } = container;
  return (
    <article class="panel unit" aria-label={name}>
      <div>
        <div class="row wide">
          <a class="name cut" href={`/containers/${id}`} title={name}>
            {name}
          </a>
          <Status shape={containerShape(container)}>{containerWord(container)}</Status>
        </div>
        <div class="about">
          <span class="mono">{id}</span>
          <span>{t.containers.size(instance_type, t.sizes[instance_type])}</span>
          <Age container={container} />
        </div>
      </div>
      <Middle container={container} />
      <Actions container={container} />
      <Under container={container} />
    </article>
  );
}

function Age({ container }: { readonly container: Container }) {
  const { status, started_at, ended_at, created_at } = container;
  const [words, time] =
    status === 'running'
      ? [t.containers.up, started_at ?? created_at]
      : status === 'stopped' || status === 'failed'
        ? [t.containers.ended, ended_at ?? created_at]
        : [t.containers.asked, created_at];
  const at = Date.parse(time);
  return (
    <time dateTime={time} title={exactTime(at)}>
      {words(span(now.value - at))}
    </time>
  );
}

function Middle({ container }: { readonly container: Container }) {
  const { status } = container;
  if (status === 'pending' || status === 'initializing') return <Track at={status === 'pending' ? 1 : 2} />;
  if (status === 'stopped' || status === 'failed') return <LastRun container={container} />;
  return <Meters container={container} />;
}

function Track({ at }: { readonly at: number }) {
  return (
    <ol class="track" aria-label={t.containers.track}>
      {t.containers.steps.map((step, n) => (
        <li key={step} class={n < at ? 'done' : n === at ? 'now' : ''} aria-current={n === at ? 'step' : undefined}>
          {step}
        </li>
      ))}
    </ol>
  );
}

function LastRun({ container }: { readonly container: Container }) {
  const { started_at, ended_at, exit_code, restarts = 0 } = container;
  const lasted =
    started_at !== undefined && ended_at !== undefined ? Date.parse(ended_at) - Date.parse(started_at) : -1;
  const facts: (readonly [string, string])[] = [
    [t.containers.lastRan, lasted < 0 ? t.containers.never : spanExactly(lasted)],
    [t.containers.restarts, String(restarts)],
    [t.containers.exitCode, exit_code === undefined ? t.containers.noCode : String(exit_code)],
  ];
  return (
    <dl class="last">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Meters({ container }: { readonly container: Container }) {
  useHistory(container);
  const points = usage.value.get(container.id) ?? [];
  const last = points.at(-1);
  const memoryMost = last?.memoryMost ?? container.memory_mb * 1024 * 1024;
  const cpuMost = last?.cpuMost ?? 1000;
  return (
    <div class="meters">
      <Spark
        name={t.containers.cpu}
        now={last === undefined ? '' : percent(last.cpu / Math.max(1, last.cpuMost))}
        points={points.map(({ at, cpu }) => ({ at, value: cpu }))}
        most={cpuMost}
        hue={1}
      />
      <Spark
        name={t.containers.memory}
        now={last === undefined ? t.containers.of(megabytes(container.memory_mb)) : bytesOf(last.memory, memoryMost)}
        points={points.map(({ at, memory }) => ({ at, value: memory }))}
        most={memoryMost}
        hue={2}
      />
    </div>
  );
}

function Actions({ container }: { readonly container: Container }) {
  const { id, name, status } = container;
  const [isDeleting, setDeleting] = useState(false);
  const start = useStart(container);
  const stop = useStop(container);
  const isStill = status === 'stopped' || status === 'failed';
  const stopItem = { name: t.containers.stop, icon: Square, asks: true, onClick: () => void stop.run() };
  return (
    <div class="row actions">
      {status === 'running' ? (
        <LinkButton icon={SquareTerminal} href={`/containers/${id}?show=terminal`}>
          {t.containers.terminal}
        </LinkButton>
      ) : isStill ? (
        <Button icon={Play} onClick={() => void start.run()} busy={start.isBusy}>
          {t.containers.start}
        </Button>
      ) : (
        <Button icon={Square} onClick={() => void stop.run()} busy={stop.isBusy}>
          {t.containers.stop}
        </Button>
      )}
      <LinkButton icon={ScrollText} href={`/containers/${id}?show=log`}>
        {t.containers.logs}
      </LinkButton>
      <Menu
        label={t.containers.more(name)}
        items={[
          ...(status === 'running' ? [stopItem] : []),
          { name: t.container.settings, icon: Settings, href: `/containers/${id}/settings` },
          { name: t.containers.delete, icon: Trash, isDanger: true, onClick: () => setDeleting(true) },
        ]}
      />
      {isDeleting && <DeleteContainer container={container} onClose={() => setDeleting(false)} />}
    </div>
  );
}

function Under({ container }: { readonly container: Container }) {
  const { id, status, status_reason, ports = [], storage_used_gb, storage_gb } = container;
  const host = readableHost(container);
  if (status === 'failed')
    return (
      <div class="under bad">
        <span>{status_reason ?? t.containers.failed}</span>
        <a class="link above away" href={`/containers/${id}?show=log`}>
          {t.containers.lastLines}
        </a>
      </div>
    );
  if (status !== 'running' && status !== 'stopped')
    return <div class="under busy">{status_reason ?? t.containers.onItsWay}</div>;
  const isWeb = ports.some(({ port }) => port === 443);
  return (
    <div class="under">
      {isWeb && (
        <span class="row">
          <Icon of={Globe} />
          <a class="link above cut" href={addressOfSite(host, 'https', outlook())} target="_blank" rel="noopener">
            {host}
          </a>
        </span>
      )}
      {ports.slice(0, 3).map(({ port, target_port }) => (
        <span class="row faint" key={port}>
          <span class="mono">{port}</span>
          {t.containers.to}
          <span class="mono">{target_port}</span>
        </span>
      ))}
      {ports.length === 0 && <span class="faint">{t.containers.closed}</span>}
      <span class="row faint away">
        <Icon of={HardDrive} />
        {bytesOf(storage_used_gb * GIB, storage_gb * GIB)}
      </span>
    </div>
  );
}
