/** Kubernetes quantities (`12Ki`, `250m`, `1500000n`) as numbers. */

const units: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
};

/** The number a quantity stands for; 0 when it is none. */
function numberOf(quantity: string): number {
  const [, number = '', unit = ''] = /^([0-9.]+(?:e[0-9]+)?)([A-Za-z]*)$/.exec(quantity) ?? [];
  const value = Number(number) * (units[unit] ?? Number.NaN);
  return Number.isFinite(value) ? value : 0;
}

/** Whole bytes of a quantity of memory or disk. */
export function bytesOf(quantity: string): number {
  return Math.round(numberOf(quantity));
}

/** Thousandths of a core of a quantity of CPU. */
export function millisOf(quantity: string): number {
  return Math.round(numberOf(quantity) * 1000);
}
