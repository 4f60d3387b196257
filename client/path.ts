/** Addresses of endpoints. */
import { TroupeError } from './errors.ts';

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

/**
 * The address of a path at the platform `url`. Throws TroupeError `elsewhere` for what leads to another origin
 * (RFC 3986, section 4.2: `//host/x`; browsers read `/\host/x` so, too): a login is for the origin where it was made.
 */
export function addressAt(url: string, path: string): URL {
  const own = new URL(url);
  const address = URL.canParse(path, url) ? new URL(path, url) : undefined;
  if (address?.origin === own.origin && address.username === '' && address.password === '') return address;
  throw new TroupeError(
    'elsewhere',
    `${path} does not lead to ${own.origin}, which the login is for: nothing was sent.`,
  );
}
