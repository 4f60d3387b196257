/** What a Markdown page links to and what can be linked to in it, as GitHub shows it. */

/** A link to a place in this repository. */
export interface Link {
  /** Relative path as written, without the anchor; empty for the page itself. */
  readonly path: string;
  /** What stands behind `#`; undefined when there is none. */
  readonly anchor: string | undefined;
  /** From 1. */
  readonly line: number;
}

/** All relative links of a page, in order: `[text](path#anchor)` and `[name]: path`. Those in code are not links. */
export function linksOf(markdown: string): Link[] {
  return withoutCode(markdown).flatMap((text, at) => {
    const inline = [...text.matchAll(/\]\(\s*<?([^()\s<>]+)>?(?:\s+"[^"]*")?\s*\)/g)];
    const named = [...text.matchAll(/^\s{0,3}\[[^\]]+\]:\s+<?([^\s<>]+)>?/g)];
    return [...inline, ...named].flatMap(([, target = '']): Link[] => {
      if (/^([a-z][a-z0-9+.-]*:|\/\/)/i.test(target)) return [];
      const [path = '', ...anchor] = target.split('#');
      return [{ path: decodeURI(path), anchor: anchor.length === 0 ? undefined : anchor.join('#'), line: at + 1 }];
    });
  });
}

/** The anchors of a page's headings. */
export function anchorsOf(markdown: string): Set<string> {
  const anchors = new Set<string>();
  for (const line of withoutFences(markdown)) {
    const [, heading] = /^#{1,6}\s+(.*?)\s*#*$/.exec(line) ?? [];
    if (heading === undefined) continue;
    const slug = slugOf(heading);
    let unique = slug;
    for (let times = 1; anchors.has(unique); times++) unique = `${slug}-${times}`;
    anchors.add(unique);
  }
  return anchors;
}

function slugOf(heading: string): string {
  return heading
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\p{M}\s_-]/gu, '')
    .replace(/\s/g, '-');
}

/** The lines of a page; those of code blocks, and code inside a line, are empty. */
function withoutCode(markdown: string): string[] {
  return withoutFences(markdown).map((line) => line.replace(/(`+).*?\1/g, (code) => ' '.repeat(code.length)));
}

function withoutFences(markdown: string): string[] {
  let fence: string | undefined;
  return markdown.split('\n').map((line) => {
    const [, mark] = /^\s*(```+|~~~+)/.exec(line) ?? [];
    if (fence === undefined && mark !== undefined) {
      fence = mark;
      return '';
    }
    if (fence !== undefined) {
      if (mark?.startsWith(fence)) fence = undefined;
      return '';
    }
    return line;
  });
}
