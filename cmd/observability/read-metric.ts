/** Numbers that somebody else keeps, shown to Prometheus when it asks. */
import { Counter, Gauge, type Registry } from 'prom-client';

/** Values by what labels them. */
type Pairs = readonly (readonly [string, number])[];

/**
 * Adds one: a counter when its name ends in `_total`, else a gauge (a rule of Prometheus that `promtool check metrics`
 * holds). `read` gives a value for each of `label`; without a label, the only pair's first part is ignored.
 */
export function readMetric(
  registry: Registry,
  name: string,
  help: string,
  label: string | undefined,
  read: () => Pairs | Promise<Pairs>,
): void {
  const common = { name, help, labelNames: label === undefined ? [] : [label], registers: [registry] };
  const labels = (value: string) => (label === undefined ? {} : { [label]: value });
  if (name.endsWith('_total')) {
    new Counter({
      ...common,
      async collect() {
        const pairs = await read();
        this.reset();
        for (const [value, count] of pairs) this.inc(labels(value), count);
      },
    });
    return;
  }
  new Gauge({
    ...common,
    async collect() {
      const pairs = await read();
      this.reset();
      for (const [value, count] of pairs) this.set(labels(value), count);
    },
  });
}

/** Makes what adds numbers without a label, whose names begin with `prefix`. */
export function readNumbers(registry: Registry, prefix: string) {
  return (name: string, help: string, read: () => number | Promise<number>): void =>
    readMetric(registry, `${prefix}_${name}`, help, undefined, async () => [['', await read()]]);
}
