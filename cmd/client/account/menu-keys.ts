/** Keys of the menu. */

/** What a key means; a number is a place in the list. */
export type MenuKey = 'up' | 'down' | 'enter' | 'logs' | 'start' | 'create' | 'quit' | 'redraw' | number;

const KEYS: Readonly<Record<string, MenuKey>> = {
  '\x1b[A': 'up',
  '\x1bOA': 'up',
  k: 'up',
  '\x1b[B': 'down',
  '\x1bOB': 'down',
  j: 'down',
  '\r': 'enter',
  '\n': 'enter',
  e: 'enter',
  l: 'logs',
  s: 'start',
  c: 'create',
  q: 'quit',
  '\x03': 'quit',
  '\x04': 'quit',
  '\x0c': 'redraw',
};

/** A sequence of escape: whole, or the beginning of one. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it is about
const SEQUENCE = /^\x1b(?:\[[0-9;]{0,8}[A-Za-z~]|O[A-Z])/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the same
const BEGINNING = /^\x1b(?:\[[0-9;]{0,8}|O)?$/;
/** Keys of one piece of input; a text that is pasted is no command. */
const MOST = 16;

/** Finds keys in what is typed, in whatever pieces it comes. */
export class MenuKeys {
  #rest = '';

  take(data: Uint8Array): MenuKey[] {
    let text = this.#rest + Buffer.from(data).toString('latin1');
    this.#rest = '';
    const keys: MenuKey[] = [];
    while (text !== '' && keys.length < MOST) {
      if (BEGINNING.test(text)) {
        this.#rest = text;
        break;
      }
      const name = SEQUENCE.exec(text)?.[0] ?? text[0] ?? '';
      text = text.slice(name.length);
      const key = /^[1-9]$/.test(name) ? Number(name) : KEYS[name];
      if (key !== undefined) keys.push(key);
    }
    return keys;
  }
}
