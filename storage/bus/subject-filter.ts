/**
 * The regular expression (PostgreSQL's, anchored) that subjects matching a pattern fulfil: `*` stands for one token, a
 * closing `>` for one or more. Undefined when everything matches.
 */
export function subjectRegex(pattern: string | undefined): string | undefined {
  if (pattern === undefined || pattern === '>') return undefined;
  const tokens = pattern.split('.').map((token, index, all) => {
    if (token === '*') return '[^.]+';
    if (token === '>' && index === all.length - 1) return '.+';
    return token.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&');
  });
  return `^${tokens.join('\\.')}$`;
}
