/** Figures over time: a line beside a number in lists, a plot with its axes on the page of a container. */
import './plot.css';
import { clockTime } from '../core/format.ts';
import { t } from '../text/text.ts';

/** A figure at a time, Unix ms. */
interface PlotPoint {
  readonly at: number;
  readonly value: number;
}

/** CPU, memory, disk: always these. */
type PlotHue = 1 | 2 | 3;

interface SparkProps {
  readonly name: string;
  /** The figure now, as people read it. */
  readonly now: string;
  readonly points: readonly PlotPoint[];
  readonly most: number;
  readonly hue: PlotHue;
}

/** Milliseconds that a spark shows. */
const SPARK_MS = 300_000;
/** A longer pause between two measurements is a gap. */
const GAP_MS = 20_000;

export function Spark({ name, now, points, most, hue }: SparkProps) {
  const shape = shapeOf(points, { span: SPARK_MS, most, width: 200, height: 30 });
  return (
    <div class={`meter of-${hue}`}>
      <div class="label">
        <span>{name}</span>
        <b>{now}</b>
      </div>
      <svg class="spark" viewBox="0 0 200 30" preserveAspectRatio="none" aria-hidden="true">
        <path class="area" d={shape.area} />
        <path class="base" d="M0 30H200" />
        <path class="curve" d={shape.curve} />
      </svg>
    </div>
  );
}

interface PlotProps {
  readonly name: string;
  /** The number, large, and what it is of. */
  readonly now: string;
  readonly of: string;
  readonly points: readonly PlotPoint[];
  readonly most: number;
  /** How much is shown, ms. */
  readonly span: number;
  readonly hue: PlotHue;
  /** A figure as the axis writes it. */
  readonly format: (value: number) => string;
  /** Where it becomes a problem, of 1. */
  readonly limit?: number;
}

export function Plot({ name, now, of, points, most, span, hue, format, limit }: PlotProps) {
  const shape = shapeOf(points, { span, most, width: 300, height: 100 });
  const until = points.at(-1)?.at ?? 0;
  const ticks = until === 0 ? [] : [1, 2 / 3, 1 / 3].map((share) => clockTime(until - span * share));
  return (
    <div class={`plot of-${hue}`}>
      <div class="top">
        <h2>{name}</h2>
        <span class="big">{now}</span>
        <span class="faint small">{of}</span>
      </div>
      <div class="chart">
        <svg viewBox="0 0 300 100" preserveAspectRatio="none" role="img" aria-label={t.plot.label(name, now, of)}>
          <path class="base" d="M0 .5H300M0 50H300M0 99.5H300" />
          {limit !== undefined && <path class="limit" d={`M0 ${100 - limit * 100}H300`} />}
          <path class="area" d={shape.area} />
          <path class="curve" d={shape.curve} />
        </svg>
        <Tick at={0}>{format(most)}</Tick>
        <Tick at={50}>{format(most / 2)}</Tick>
        <Tick at={100}>0</Tick>
      </div>
      <div class="axis" aria-hidden="true">
        {ticks.map((tick) => (
          <span key={tick}>{tick}</span>
        ))}
        <span>{points.length === 0 ? t.plot.nothing : t.plot.now}</span>
      </div>
    </div>
  );
}

function Tick({ at, children }: { readonly at: number; readonly children: string }) {
  return (
    <span aria-hidden="true" style={{ '--at': `${at}%` }}>
      {children}
    </span>
  );
}

interface ShapeFrame {
  readonly span: number;
  readonly most: number;
  readonly width: number;
  readonly height: number;
}

/** The line and the area below it, up to the last point. Where nothing was measured there is a gap. */
function shapeOf(points: readonly PlotPoint[], { span, most, width, height }: ShapeFrame) {
  const until = points.at(-1)?.at ?? 0;
  const from = until - span;
  let curve = '';
  let area = '';
  let before: number | undefined;
  let beginX = 0;
  let lastX = 0;
  const close = () => {
    if (before !== undefined) area += `L${lastX} ${height}L${beginX} ${height}Z`;
  };
  for (const { at, value } of points) {
    if (at < from) continue;
    const x = round(((at - from) / span) * width);
    const y = round(height - Math.min(1, most === 0 ? 0 : value / most) * height);
    const isNew = before === undefined || at - before > Math.max(GAP_MS, span / 100);
    if (isNew) {
      close();
      beginX = x;
    }
    curve += `${isNew ? 'M' : 'L'}${x} ${y}`;
    area += `${isNew ? 'M' : 'L'}${x} ${y}`;
    before = at;
    lastX = x;
  }
  close();
  return { curve, area };
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
