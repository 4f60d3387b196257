/** The names that the user gave up and can take again, as the hint of a field says them. */
import { dateOf } from '../core/format.ts';
import { client } from '../core/platform.ts';
import { useLoaded } from '../core/resource.ts';
import { t } from '../text/text.ts';

/** A sentence; empty while nothing is known, and when there are none. `keys`: what changes them. */
export function useReservedNames(keys: readonly unknown[] = []): string {
  const names = useLoaded((signal) => client.call('listAddressNames', undefined, { signal }), keys);
  const reserved = (names.value?.address_names ?? []).flatMap(({ name, reserved_until }) =>
    reserved_until === undefined ? [] : [t.network.reservedName(name, dateOf(Date.parse(reserved_until)))],
  );
  return reserved.length === 0 ? '' : t.network.reservedNames(reserved.join(', '));
}
