/** What a container uses: CPU, memory and disk of the last quarter of an hour. */
import { useState } from 'preact/hooks';
import type { Container } from '../../../client/index.ts';
import { bytesOf, clockTime, decimal, percent } from '../../core/format.ts';
import { useHistory } from '../../live/history.ts';
import { usage } from '../../live/live.ts';
import type { UsagePoint } from '../../live/messages.ts';
import { Plot } from '../../parts/plot.tsx';
import { Summary } from '../../parts/summary.tsx';
import { t } from '../../text/text.ts';

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
const SHOWN_MS = 900_000;
const MINUTE_MS = 60_000;
/** Where the platform warns of a full disk, of 1. */
const NEARLY_FULL = 0.9;

export function UsagePlots({ container }: { readonly container: Container }) {
  const { id, memory_mb, storage_gb, instance_type } = container;
  useHistory(container);
  const points = usage.value.get(id) ?? [];
  const last = points.at(-1);
  const cpuMost = last?.cpuMost || 1000;
  const memoryMost = last?.memoryMost || memory_mb * MIB;
  const diskMost = last?.diskMost || storage_gb * GIB;
  const [unit, unitName] = memoryMost >= GIB ? [GIB, 'GB'] : [MIB, 'MB'];
  return (
    <section class="panel usage" aria-label={t.container.usage}>
      <div class="plots">
        <Plot
          name={t.container.cpu}
          now={last === undefined ? '' : decimal(Math.round((last.cpu / cpuMost) * 100))}
          of={t.container.ofCores(t.sizes[instance_type])}
          points={points.map(({ at, cpu }) => ({ at, value: (cpu / cpuMost) * 100 }))}
          most={100}
          span={SHOWN_MS}
          hue={1}
          format={decimal}
        />
        <Plot
          name={t.container.memory}
          now={last === undefined ? '' : decimal(rounded(last.memory / unit))}
          of={t.containers.of(`${decimal(memoryMost / unit)} ${unitName}`)}
          points={points.map(({ at, memory }) => ({ at, value: memory }))}
          most={memoryMost}
          span={SHOWN_MS}
          hue={2}
          format={(value) => decimal(value / unit)}
        />
        <Plot
          name={t.container.disk}
          now={last === undefined ? '' : decimal(last.disk / GIB)}
          of={t.containers.of(`${decimal(diskMost / GIB)} GB`)}
          points={points.map(({ at, disk }) => ({ at, value: disk }))}
          most={diskMost}
          span={SHOWN_MS}
          hue={3}
          format={(value) => decimal(value / GIB)}
          limit={NEARLY_FULL}
        />
      </div>
      <UsageTable points={points} />
    </section>
  );
}

interface UsageTableProps {
  readonly points: readonly UsagePoint[];
}

/** The same as a table, the newest minute first. */
function UsageTable({ points }: UsageTableProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="astable" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <Summary>{t.container.asTable}</Summary>
      {isOpen && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by the keyboard.
        <section class="scroll" aria-label={t.container.asTableOf} tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">{t.container.time}</th>
                <th scope="col">{t.container.cpu}</th>
                <th scope="col">{t.container.memory}</th>
                <th scope="col">{t.container.disk}</th>
              </tr>
            </thead>
            <tbody>
              {minutesOf(points).map(({ at, cpu, cpuMost, memory, memoryMost, disk, diskMost }) => (
                <tr key={at}>
                  <th scope="row">{clockTime(at)}</th>
                  <td>{percent(cpuMost === 0 ? 0 : cpu / cpuMost)}</td>
                  <td>{bytesOf(memory, memoryMost)}</td>
                  <td>{bytesOf(disk, diskMost)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </details>
  );
}

/** The last point of each minute that is shown, newest first. */
function minutesOf(points: readonly UsagePoint[]): UsagePoint[] {
  const from = (points.at(-1)?.at ?? 0) - SHOWN_MS;
  const last = new Map<number, UsagePoint>();
  for (const point of points) if (point.at >= from) last.set(Math.floor(point.at / MINUTE_MS), point);
  return [...last.values()].reverse();
}

function rounded(value: number): number {
  return value >= 10 ? Math.round(value) : value;
}
