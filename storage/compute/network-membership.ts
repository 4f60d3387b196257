/** What a row of a container says of the private network it is in. */
export interface NetworkMembership {
  readonly name: string;
  /** By which the other members find it; null: they do not. */
  readonly alias: string | null;
  /** Its address follows from it. */
  readonly place: number;
}

/** Reads the columns; undefined: in none. */
export function membershipIn(row: {
  readonly network: string | null;
  readonly network_alias: string | null;
  readonly network_place: number | null;
}): NetworkMembership | undefined {
  const { network: name, network_alias: alias, network_place: place } = row;
  return name === null || place === null ? undefined : { name, alias, place };
}
