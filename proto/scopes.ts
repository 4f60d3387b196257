/** Scope keys and the cascade of interface section 5.3, as pure functions. */

/** What a token may do: scope key -> actions. */
export type Scopes = Readonly<Record<string, readonly string[]>>;

/**
 * Whether `scopes` grants `action` on `key`. A grant at the key itself or at any broader level that still names the user
 * (`compute.<uid>.containers`, `compute.<uid>`) counts; a bare service root grants nothing (rule 3). Segments are compared
 * whole, so `compute.u1` never covers `compute.u10`.
 */
export function grants(scopes: Scopes, key: string, action: string): boolean {
  let level = key;
  while (level.includes('.')) {
    if (Object.hasOwn(scopes, level) && scopes[level]?.includes(action)) return true;
    level = level.slice(0, level.lastIndexOf('.'));
  }
  return false;
}
