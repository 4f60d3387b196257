/** Numbers that somebody else keeps, shown to Prometheus when it asks. */
import { Counter, Gauge, type Registry } from 'prom-client';

/**
 * Adds one: a counter when its name ends in `_total`, else a gauge (the rule of Prometheus' naming guide that `promtool
 * check metrics` holds). `read` gives a value for each value of `label`; without a label, the only pair's first part is
 * ignored.
 */
export function readMetric(
  registry: Registry,
  name: string,
  help: string,
  label: string | undefined,
  read: () => readonly (readonly [string, number])[],
): void {
  const common = { name, help, labelNames: label === undefined ? [] : [label], registers: [registry] };
  const labels = (value: string) => (label === undefined ? {} : { [label]: value });
  if (name.endsWith('_total')) {
    new Counter({
      ...common,
      collect() {
        this.reset();
        for (const [value, count] of read()) this.inc(labels(value), count);
      },
    });
    return;
  }
  new Gauge({
    ...common,
    collect() {
      this.reset();
      for (const [value, count] of read()) this.set(labels(value), count);
    },
  });
}
