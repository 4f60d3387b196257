/** The order of a user's own containers. */
interface NamedOne {
  readonly name: string;
  readonly id: string;
}

/**
 * By name without regard to case, then by id. Names of containers are ASCII, so code points do: the browser's own
 * collation takes 20 ms to begin on a slow machine, before the first list is drawn.
 */
export function byName(a: NamedOne, b: NamedOne): number {
  return order(a.name.toLowerCase(), b.name.toLowerCase()) || order(a.id, b.id);
}

const order = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
