/** Whether two samples come from the same distribution. */

/**
 * The two-sample Kolmogorov-Smirnov test at a level of one in a million: true when the samples differ so much that chance
 * would do it less than once in a million times. With 100 values each, the distance must be over 0.38.
 */
export function differs(a: readonly number[], b: readonly number[]): boolean {
  const level = 1e-6;
  const critical = Math.sqrt((-Math.log(level / 2) / 2) * ((a.length + b.length) / (a.length * b.length)));
  return distance(a, b) > critical;
}

/** The largest difference between the two empirical distribution functions, 0 to 1. */
export function distance(a: readonly number[], b: readonly number[]): number {
  const [left, right] = [a.toSorted((x, y) => x - y), b.toSorted((x, y) => x - y)];
  let [i, j, largest] = [0, 0, 0];
  while (i < left.length && j < right.length) {
    const at = Math.min(left[i] ?? 0, right[j] ?? 0);
    while (i < left.length && (left[i] ?? 0) <= at) i++;
    while (j < right.length && (right[j] ?? 0) <= at) j++;
    largest = Math.max(largest, Math.abs(i / left.length - j / right.length));
  }
  return largest;
}
