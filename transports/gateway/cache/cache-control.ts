/** Reads Cache-Control and the dates of a message. In doubt a response is older, and a directive is there. */

/** Directives by name in lower case, with every value that came. */
type Directives = ReadonlyMap<string, readonly string[]>;

/**
 * Directives of all these values. Quoted commas are not understood: what is cut wrongly shows as a directive more,
 * never as one less (RFC 9111, section 5.2).
 */
export function directivesOf(values: readonly string[]): Directives {
  const found = new Map<string, string[]>();
  for (const part of values.join(',').split(',')) {
    const equals = part.indexOf('=');
    const name = (equals < 0 ? part : part.slice(0, equals)).trim().toLowerCase().replace(/^"/, '');
    if (name === '') continue;
    const value = equals < 0 ? '' : part.slice(equals + 1).trim();
    const known = found.get(name);
    if (known === undefined) found.set(name, [value]);
    else known.push(value);
  }
  return found;
}

/** Most seconds that are told apart (RFC 9111, section 1.2.2: 2^31). */
const MAX_SECONDS = 2 ** 31;

/** Seconds of text: digits alone, quoted or not; NaN for anything else. */
export function secondsOf(text: string): number {
  const [, digits] = /^"?([0-9]+)"?$/.exec(text) ?? [];
  return digits === undefined ? Number.NaN : Math.min(Number(digits), MAX_SECONDS);
}

/** The least of a directive's values, 0 when one is none; undefined when it is not there. */
export function secondsIn(directives: Directives, name: string): number | undefined {
  const values = directives.get(name);
  if (values === undefined) return undefined;
  return Math.min(...values.map((value) => secondsOf(value) || 0));
}

const FIXDATE = /^[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT$/;

/** Unix ms of an IMF-fixdate (RFC 9110, section 5.6.7); undefined for any other writing. */
export function dateOf(text: string): number | undefined {
  if (!FIXDATE.test(text)) return undefined;
  const time = Date.parse(text);
  return Number.isNaN(time) ? undefined : time;
}
