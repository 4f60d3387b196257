/** What this browser remembers, or this tab. A browser that forbids it forgets. */

/** Of all tabs, beyond a restart. */
export function remember(name: string, value: string | undefined): void {
  write(() => localStorage, name, value);
}

export function remembered(name: string): string | undefined {
  return readFrom(() => localStorage, name);
}

/** Of this tab alone, also after a reload. */
export function rememberHere(name: string, value: string | undefined): void {
  write(() => sessionStorage, name, value);
}

export function rememberedHere(name: string): string | undefined {
  return readFrom(() => sessionStorage, name);
}

function write(storage: () => Storage, name: string, value: string | undefined): void {
  try {
    if (value === undefined) storage().removeItem(`troupe.${name}`);
    else storage().setItem(`troupe.${name}`, value);
  } catch {
    // Forbidden or full: the choice holds until the page is left.
  }
}

function readFrom(storage: () => Storage, name: string): string | undefined {
  try {
    return storage().getItem(`troupe.${name}`) ?? undefined;
  } catch {
    return undefined;
  }
}
