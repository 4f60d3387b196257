/** What a container uses: CPU, memory and disk of the last quarter of an hour. */
import type { Container } from '../../../client/index.ts';
import { coresOf } from '../../core/sizes.ts';
import { useHistory } from '../../live/history.ts';
import { usage } from '../../live/live.ts';
import { Plot } from '../../parts/plot.tsx';
import { t } from '../../text/text.ts';

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
const SHOWN_MS = 900_000;
/** Where the platform warns of a full disk, of 1. */
const NEARLY_FULL = 0.9;

const figure = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

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
          now={last === undefined ? '' : figure.format(Math.round((last.cpu / cpuMost) * 100))}
          of={t.container.ofCores(coresOf(instance_type))}
          points={points.map(({ at, cpu }) => ({ at, value: (cpu / cpuMost) * 100 }))}
          most={100}
          span={SHOWN_MS}
          hue={1}
          format={figure.format}
        />
        <Plot
          name={t.container.memory}
          now={last === undefined ? '' : figure.format(rounded(last.memory / unit))}
          of={t.containers.of(`${figure.format(memoryMost / unit)} ${unitName}`)}
          points={points.map(({ at, memory }) => ({ at, value: memory }))}
          most={memoryMost}
          span={SHOWN_MS}
          hue={2}
          format={(value) => figure.format(value / unit)}
        />
        <Plot
          name={t.container.disk}
          now={last === undefined ? '' : figure.format(last.disk / GIB)}
          of={t.containers.of(`${figure.format(diskMost / GIB)} GB`)}
          points={points.map(({ at, disk }) => ({ at, value: disk }))}
          most={diskMost}
          span={SHOWN_MS}
          hue={3}
          format={(value) => figure.format(value / GIB)}
          limit={NEARLY_FULL}
        />
      </div>
    </section>
  );
}

function rounded(value: number): number {
  return value >= 10 ? Math.round(value) : value;
}
