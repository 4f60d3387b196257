/**
 * What a TypeScript file imports, read without a compiler: a tokenizer that knows comments, strings, templates and regular
 * expressions well enough to tell code from text, and patterns over its tokens.
 */

/** A specifier that a file imports, a use of `process.env`, or a global that opens connections. */
export interface Use {
  readonly kind: 'import' | 'environment' | 'network';
  /** The specifier as written; `process.env` for the environment; the name of the global. */
  readonly name: string;
  /** From 1. */
  readonly line: number;
}

interface Token {
  readonly kind: 'word' | 'string' | 'punctuation' | 'other';
  readonly text: string;
  readonly line: number;
}

/**
 * All imports of a source text, in order: `import`, `export ... from`, `import()` in code and in types, `require` and
 * functions made by `createRequire`; every way to name `process.env`; and `fetch` and its like. Specifiers that are computed are not seen.
 */
export function scan(source: string): Use[] {
  const tokens = tokenize(source);
  const requires = new Set(['require', ...requireNames(tokens)]);
  return tokens.flatMap((token, at): Use[] => {
    const use = (kind: Use['kind'], name: string): Use[] => [{ kind, name, line: token.line }];
    const before = (count: number) => text(tokens, at - count);
    if (token.kind === 'string') {
      const called = before(1) === '(' ? before(2) : '';
      const resolved = called === 'resolve' && before(3) === '.' && requires.has(before(4));
      const direct = called === ')' && madeByCreateRequire(tokens, at - 2);
      if (['from', 'import'].includes(before(1)) || called === 'import' || requires.has(called) || resolved || direct) {
        return use('import', token.text);
      }
    }
    if (token.text === 'process' && token.kind === 'word' && before(1) !== '.') {
      const next = [1, 2].map((step) => tokens[at + step]?.text).join(' ');
      const isTakenApart = before(1) === '=' && before(2) === '}' && tokens[at + 1]?.text !== '.';
      if (next === '. env' || next === '?. env' || next === '[ env' || isTakenApart)
        return use('environment', 'process.env');
    }
    const isMember = ['.', '?.'].includes(before(1)) && before(2) !== 'globalThis';
    if (NETWORK.has(token.text) && token.kind === 'word' && !isMember && text(tokens, at + 1) !== ':')
      return use('network', token.text);
    return [];
  });
}

/** Globals that open connections. */
const NETWORK = new Set(['fetch', 'WebSocket', 'EventSource']);

function text(tokens: readonly Token[], at: number): string {
  const token = tokens[at];
  return token === undefined || token.kind === 'string' ? '' : token.text;
}

/** Names in `name = createRequire(`. */
function requireNames(tokens: readonly Token[]): string[] {
  return tokens.flatMap((token, at) =>
    token.text === 'createRequire' && text(tokens, at - 1) === '=' ? [text(tokens, at - 2)] : [],
  );
}

/** Whether the parenthesis that closes at `at` was opened by a call of createRequire. */
function madeByCreateRequire(tokens: readonly Token[], at: number): boolean {
  let depth = 0;
  for (let i = at; i >= 0; i--) {
    if (text(tokens, i) === ')') depth++;
    if (text(tokens, i) === '(' && --depth === 0) return text(tokens, i - 1) === 'createRequire';
  }
  return false;
}

const BLANK = /\s+/y;
const COMMENT = /\/\/.*|\/\*[\s\S]*?(?:\*\/|$)/y;
const STRING = /'(?:[^'\\\n]|\\[\s\S])*'?|"(?:[^"\\\n]|\\[\s\S])*"?/y;
const WORD = /[\p{L}\p{Nl}$_#][\p{L}\p{Nl}\p{Nd}\p{Mn}\p{Mc}\p{Pc}$_]*/uy;
const NUMBER = /\.?\d[\w.]*/y;
const REGEX = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y;
/** A template's text up to its end or its next hole; what opens and closes holes is kept by the caller. */
const TEMPLATE = /(?:[^`\\$]|\\[\s\S]|\$(?!\{))*(?:`|\$\{|$)/y;
/** Words after which a slash starts a regular expression. */
const BEFORE_REGEX = new Set(['return', 'typeof', 'case', 'in', 'of', 'do', 'else', 'void', 'await', 'yield', 'throw']);

function tokenize(source: string): Token[] {
  const tokens: Token[] = [];
  /** For every open brace, whether it is a template's hole. */
  const braces: boolean[] = [];
  let at = 0;
  let line = 1;
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    const found = pattern.exec(source)?.[0];
    if (!found) return undefined;
    at += found.length;
    return found;
  };
  const add = (kind: Token['kind'], value: string, taken: string) => {
    tokens.push({ kind, text: value, line });
    line += newlines(taken);
  };
  const template = (opener: string) => {
    const rest = take(TEMPLATE) ?? '';
    const isWhole = opener === '`' && rest.endsWith('`');
    add(isWhole ? 'string' : 'other', isWhole ? rest.slice(0, -1) : '`', rest);
    if (rest.endsWith('${')) braces.push(true);
  };
  while (at < source.length) {
    const skipped = take(BLANK) ?? take(COMMENT);
    if (skipped !== undefined) {
      line += newlines(skipped);
      continue;
    }
    const string = take(STRING);
    if (string !== undefined) {
      add('string', string.slice(1, -1), string);
      continue;
    }
    const regex = source[at] === '/' && startsRegex(tokens.at(-1)) ? take(REGEX) : undefined;
    if (regex !== undefined) {
      add('other', '/', regex);
      continue;
    }
    const word = take(WORD);
    if (word !== undefined) {
      add('word', word, word);
      continue;
    }
    const number = take(NUMBER);
    if (number !== undefined) {
      add('other', number, number);
      continue;
    }
    const character = source.startsWith('?.', at) ? '?.' : (source[at] ?? '');
    at += character.length;
    if (character === '`') template('`');
    else if (character === '{') braces.push(false);
    else if (character === '}' && braces.pop()) {
      template('}');
      continue;
    }
    if (character !== '`') add('punctuation', character, '');
  }
  return tokens;
}

function newlines(taken: string): number {
  return taken.split('\n').length - 1;
}

function startsRegex(previous: Token | undefined): boolean {
  if (previous === undefined) return true;
  if (previous.kind === 'word') return BEFORE_REGEX.has(previous.text);
  return previous.kind === 'punctuation' && ![')', ']', '}'].includes(previous.text);
}
