/** Addresses of endpoints. */

type UrlFields = Readonly<Record<string, unknown>>;

/** The path with its parameters, and the query. Members that are undefined are left out; lists come value by value. */
export function fill(path: string, params: UrlFields = {}, query: UrlFields = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(params[name])));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined) for (const one of Array.isArray(value) ? value : [value]) search.append(name, String(one));
  const text = search.toString();
  return text === '' ? filled : `${filled}?${text}`;
}
