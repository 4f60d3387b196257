/** Kubernetes quantities, in which machines are measured: `1250m` cores, `24690000Ki` bytes. */

const UNITS: Readonly<Record<string, number>> = {
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 1024,
  Mi: 1024 ** 2,
  Gi: 1024 ** 3,
  Ti: 1024 ** 4,
};

/** The amount in whole units; 0 of what is no quantity. */
export function amountOf(quantity: string): number {
  const [, digits, unit = ''] = /^([\d.]+)([a-zA-Z]*)$/.exec(quantity) ?? [];
  return digits === undefined ? 0 : Number(digits) * (unit === '' ? 1 : (UNITS[unit] ?? 0));
}
