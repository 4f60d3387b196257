/** The little XML that buckets speak: elements without attributes, none within another of its name. */

const ENTITIES: ReadonlyMap<string, string> = new Map([
  ['amp', '&'],
  ['lt', '<'],
  ['gt', '>'],
  ['quot', '"'],
  ['apos', "'"],
]);

/** What is inside each element of this name. */
export function elementsIn(xml: string, name: string): string[] {
  const found: string[] = [];
  const [begin, end] = [`<${name}>`, `</${name}>`];
  for (let at = xml.indexOf(begin); at >= 0; at = xml.indexOf(begin, at)) {
    const to = xml.indexOf(end, at);
    if (to < 0) break;
    found.push(xml.slice(at + begin.length, to));
    at = to + end.length;
  }
  return found;
}

/** The text of the first element of this name; undefined without one. */
export function textIn(xml: string, name: string): string | undefined {
  const at = xml.indexOf(`<${name}>`);
  const to = at < 0 ? -1 : xml.indexOf(`</${name}>`, at);
  if (to < 0) return undefined;
  return xml
    .slice(at + name.length + 2, to)
    .replace(/&(?:#(\d+)|#x([0-9a-fA-F]+)|([a-z]+));/g, (whole, decimal, hex, entity) => {
      if (decimal !== undefined) return String.fromCodePoint(Number(decimal));
      if (hex !== undefined) return String.fromCodePoint(Number.parseInt(hex, 16));
      return ENTITIES.get(entity) ?? whole;
    });
}

/** Text as it stands in an element. */
export function escaped(text: string): string {
  return text.replace(/[&<>]/g, (sign) => ({ '&': '&amp;', '<': '&lt;' })[sign] ?? '&gt;');
}
