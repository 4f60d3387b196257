/** What depends on what: drawn in five ranks, and the same as a table. */
import './map.css';
import { useState } from 'preact/hooks';
import { count, decimal } from '../../core/format.ts';
import { call } from '../../core/platform.ts';
import { Loading, Note } from '../../parts/note.tsx';
import { Page } from '../../parts/page.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Status, type StatusShape } from '../../parts/status.tsx';
import { DataTable } from '../../parts/table.tsx';
import { t } from '../../text/text.ts';
import { forAdministrator, usePolled } from './administrator.tsx';
import {
  BOX,
  CLIENTS,
  CONTAINERS,
  curveOf,
  type DependencyMap,
  type MapLine,
  type MapPart,
  mapOf,
  type PartHealth,
  type PlacedPart,
  placed,
  rankX,
  widthOf,
} from './map-rules.ts';

const SHAPES: Readonly<Record<PartHealth, StatusShape>> = { ok: 'running', warn: 'warn', bad: 'failed' };

/** The map, and the one before it, which says how busy each line is now. */
interface MapInTime {
  readonly now: DependencyMap;
  readonly before: DependencyMap | undefined;
}

export const DependencyPage = forAdministrator(() => {
  const [known, setKnown] = useState<MapInTime>();
  const graph = usePolled(async (signal) => {
    const now = mapOf(await call('dependencyGraph', undefined, { signal }));
    setKnown((last) => ({ now, before: last?.now }));
    return now;
  });
  const ill = known?.now.parts.filter(({ health }) => health !== 'ok') ?? [];
  return (
    <Page title={t.platform.map} lead={t.map.lead}>
      <div class="stack">
        <Loading data={graph} tall={320} many={1} />
        {ill.length > 0 && (
          <Note tone="warn">{t.map.ill(ill.map((part) => `${nameOf(part)} (${part.status})`).join(', '))}</Note>
        )}
        {known !== undefined && (
          <>
            <Panel title={t.map.drawing}>
              <Drawing map={known.now} />
            </Panel>
            <LineTable {...known} />
          </>
        )}
      </div>
    </Page>
  );
});

/** `PostgreSQL` of `storage:postgresql`. */
function nameOf({ id }: Pick<MapPart, 'id'>): string {
  if (id === CLIENTS) return t.map.clients;
  if (id === CONTAINERS) return t.map.inContainers;
  const name = id.slice(id.indexOf(':') + 1);
  if (id.startsWith('node:')) return name;
  const known: Readonly<Record<string, string>> = t.map.names;
  return known[id] ?? `${name.charAt(0).toUpperCase()}${name.slice(1)}`;
}

/** What a box says below its name. */
function aboutPart({ id, counts, status, rank }: MapPart): string {
  if (id === CLIENTS) return t.map.fromOutside;
  if (id === CONTAINERS) return t.map.containers(counts.container ?? 0);
  if (rank === 1)
    return [
      t.map.routes(counts.route ?? 0),
      ...(counts.mapping === undefined ? [] : [t.map.mappings(counts.mapping)]),
    ].join(', ');
  if (id.startsWith('node:')) return `${t.map.process}, ${status}`;
  return status === 'ok' ? t.map.well : status;
}

function Drawing({ map }: { readonly map: DependencyMap }) {
  const [near, setNear] = useState<string>();
  const { boxes, width, height } = placed(map.parts);
  const byId = new Map(boxes.map((box) => [box.part.id, box]));
  const drawn = map.lines.flatMap((line) => {
    const [from, to] = [byId.get(line.from), byId.get(line.to)];
    return from === undefined || to === undefined ? [] : [{ line, from, to }];
  });
  const words = t.map.described(map.parts.length, map.lines.length);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by the keyboard
    <section class="map-scroll" tabIndex={0} aria-label={words}>
      <svg class="map" viewBox={`-2 0 ${width + 4} ${height + 4}`} role="img" aria-label={t.map.drawing}>
        {t.map.ranks.map((rank, at) => (
          <text key={rank} class="rank" x={rankX(at)} y="14">
            {rank}
          </text>
        ))}
        <g>
          {drawn.map(({ line, from, to }) => (
            <path
              key={`${line.from} ${line.to} ${line.kind}`}
              class={`line ${line.kind} ${near === line.from || near === line.to ? 'near' : ''}`}
              d={curveOf(from, to)}
              stroke-width={widthOf(line.total)}
            />
          ))}
        </g>
        {boxes.map((box) => (
          <Box key={box.part.id} box={box} onNear={setNear} />
        ))}
      </svg>
    </section>
  );
}

interface BoxProps {
  readonly box: PlacedPart;
  readonly onNear: (id: string | undefined) => void;
}

function Box({ box: { part, x, y }, onNear }: BoxProps) {
  return (
    <g
      class={`box ${part.health}`}
      transform={`translate(${x} ${y})`}
      onPointerEnter={() => onNear(part.id)}
      onPointerLeave={() => onNear(undefined)}
    >
      <rect class="ground" width={BOX.width} height={BOX.height} rx="10" />
      {part.health === 'ok' ? (
        <circle class="shape" cx="18" cy="21" r="4.5" />
      ) : (
        <path class="shape" d="m18 15 6 11H12z" />
      )}
      <text class="name" x="32" y="25">
        {short(nameOf(part), 19)}
      </text>
      <text class="about" x="32" y="43">
        {short(aboutPart(part), 22)}
      </text>
    </g>
  );
}

function short(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

function LineTable({ now, before }: MapInTime) {
  const parts = new Map(now.parts.map((part) => [part.id, part]));
  const named = (id: string) => nameOf(parts.get(id) ?? { id });
  const rateOf = (line: MapLine) => {
    const last = before?.lines.find((one) => one.from === line.from && one.to === line.to && one.kind === line.kind);
    const seconds = (now.at - (before?.at ?? now.at)) / 1000;
    if (line.total === undefined || last?.total === undefined || seconds <= 0) return undefined;
    return Math.max(0, line.total - last.total) / seconds;
  };
  return (
    <DataTable
      label={t.map.table}
      isTitled
      rows={now.lines}
      keyOf={({ from, to, kind }) => `${from} ${to} ${kind}`}
      columns={[
        {
          id: 'from',
          name: t.map.from,
          of: ({ from }) => named(from),
          cell: ({ from }) => <PartName part={parts.get(from)} />,
        },
        {
          id: 'to',
          name: t.map.to,
          of: ({ to }) => named(to),
          cell: ({ to }) => <PartName part={parts.get(to)} />,
        },
        { id: 'kind', name: t.map.kind, of: ({ kind }) => kind },
        {
          id: 'traffic',
          name: t.map.traffic,
          isNumber: true,
          of: ({ total }) => total ?? -1,
          cell: ({ total, unit }) =>
            total === undefined ? <span class="faint">{t.map.none}</span> : `${count(total)} ${unit}`,
        },
        {
          id: 'now',
          name: t.map.rate,
          isNumber: true,
          of: (line) => rateOf(line) ?? -1,
          cell: (line) => {
            const rate = rateOf(line);
            return rate === undefined ? (
              <span class="faint">{t.map.none}</span>
            ) : (
              t.map.perSecond(decimal(rate), line.unit)
            );
          },
        },
      ]}
    />
  );
}

function PartName({ part }: { readonly part: MapPart | undefined }) {
  if (part === undefined) return null;
  return (
    <span class="row">
      <Status shape={SHAPES[part.health]} />
      <span>
        {nameOf(part)}
        <span class="sr">, {t.map.states[part.health]}</span>
      </span>
    </span>
  );
}
