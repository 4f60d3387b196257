/** xterm.js, in a file of its own: it is loaded when somebody opens a terminal. */
import '@xterm/xterm/css/xterm.css';
import { effect, type ReadonlySignal, signal } from '@preact/signals';
import { FitAddon } from '@xterm/addon-fit';
import { type ISearchOptions, SearchAddon } from '@xterm/addon-search';
import { WebLinksAddon } from '@xterm/addon-web-links';
import { Terminal } from '@xterm/xterm';
import type { TerminalSize } from '../../../../client/index.ts';
import { isReadOut } from '../../../core/read-out.ts';
import { t } from '../../../text/text.ts';
import { adoptStyles } from './adopt-styles.ts';

/** Lines that can be scrolled back to. */
const SCROLLBACK = 5000;
const FONT = '"Geist Mono Variable", ui-monospace, Menlo, monospace';

const THEME = {
  background: '#17181b',
  foreground: '#d7dade',
  cursor: '#d7dade',
  cursorAccent: '#17181b',
  selectionBackground: '#4a4d6b',
  black: '#2a2d33',
  red: '#ff9a90',
  green: '#7ddba6',
  yellow: '#f2cd7c',
  blue: '#86b8ff',
  magenta: '#c9a6ff',
  cyan: '#6fd6e0',
  white: '#d7dade',
  brightBlack: '#8d939c',
  brightRed: '#ffb4ac',
  brightGreen: '#a0e8bf',
  brightYellow: '#f7dea3',
  brightBlue: '#aed0ff',
  brightMagenta: '#dcc6ff',
  brightCyan: '#9be6ed',
  brightWhite: '#ffffff',
};

/** What a screen of characters tells, and what is told of it. */
export interface EmulatorEvents {
  readonly onType: (data: string) => void;
  readonly onSize: (size: TerminalSize) => void;
  /** The id of an element that says how the terminal is left. */
  readonly describedBy: string;
}

/** `at` counts from 0. */
interface FoundInTerminal {
  readonly at: number;
  readonly of: number;
}

const NOT_FOUND: FoundInTerminal = { at: -1, of: 0 };

/** As the marks of a log, on the dark ground. */
const SEARCH: ISearchOptions = {
  decorations: {
    matchBackground: '#5c4a12',
    matchOverviewRuler: '#f2cd7c',
    activeMatchBackground: '#b08a1e',
    activeMatchColorOverviewRuler: '#f2cd7c',
  },
};

/** A screen of characters, which can be put into a page and taken out again. */
export interface Emulator {
  readonly element: HTMLElement;
  write(bytes: Uint8Array): void;
  /** An empty screen. */
  reset(): void;
  /** As large as its place. */
  fit(): void;
  focus(): void;
  paste(text: string): void;
  /** What begins the code of an arrow key: the program inside chooses it (DECCKM). */
  arrowPrefix(): string;
  /** Marks the words wherever they are, and goes to one. */
  find(words: string, to: 'as typed' | 'next' | 'before'): void;
  /** Forgets what was found. */
  endFind(): void;
  /** Which of how many is shown. */
  readonly found: ReadonlySignal<FoundInTerminal>;
  /** What the keys that find do: whoever shows the screen says it. */
  onFindKey: () => void;
  /** What the keys that leave the terminal do: whoever shows the screen says it. */
  onLeaveKey: () => void;
  close(): void;
}

/** Resolves when its font is there: the size of a character is measured once. */
export async function openEmulator(events: EmulatorEvents): Promise<Emulator> {
  adoptStyles();
  Terminal.strings.promptLabel = t.terminal.input;
  Terminal.strings.tooMuchOutput = t.terminal.tooMuch;
  await document.fonts.load(`13px ${FONT}`).catch(() => []);
  const terminal = new Terminal({
    fontFamily: FONT,
    fontSize: 13,
    lineHeight: 1.25,
    scrollback: SCROLLBACK,
    theme: THEME,
    cursorBlink: !matchMedia('(prefers-reduced-motion: reduce)').matches,
    // For the marks of what was found.
    allowProposedApi: true,
    macOptionIsMeta: true,
  });
  const fit = new FitAddon();
  const search = new SearchAddon();
  const links = new WebLinksAddon((_, uri) => void window.open(uri, '_blank', 'noopener'));
  for (const addon of [fit, search, links]) terminal.loadAddon(addon);
  const element = document.createElement('div');
  element.className = 'xterm-place';
  terminal.onData(events.onType);
  terminal.onResize(({ cols, rows }) => events.onSize({ cols, rows }));
  terminal.attachCustomKeyEventHandler((event) => {
    if (!event.ctrlKey || !event.shiftKey) return true;
    if (event.code === 'KeyC' && terminal.hasSelection()) {
      if (event.type === 'keydown') void navigator.clipboard.writeText(terminal.getSelection());
      event.preventDefault();
      return false;
    }
    if (event.code === 'KeyF') {
      if (event.type === 'keydown') emulator.onFindKey();
      event.preventDefault();
      return false;
    }
    if (event.code === 'KeyX') {
      if (event.type === 'keydown') emulator.onLeaveKey();
      event.preventDefault();
      return false;
    }
    // Left to the browser, which pastes.
    return event.code !== 'KeyV';
  });
  const found = signal(NOT_FOUND);
  search.onDidChangeResults(({ resultIndex, resultCount }) => {
    found.value = { at: resultIndex, of: resultCount };
  });
  let isOpen = false;
  const open = () => {
    terminal.open(element);
    isOpen = true;
    // It takes Tab for the shell: only its button leads in, or else Tab could not pass it (WCAG 2.1.2).
    const { textarea } = terminal;
    if (textarea === undefined) return;
    textarea.tabIndex = -1;
    textarea.setAttribute('aria-describedby', events.describedBy);
  };
  const endReadOut = effect(() => {
    terminal.options.screenReaderMode = isReadOut.value;
  });
  const emulator: Emulator = {
    element,
    found,
    onFindKey: () => {},
    onLeaveKey: () => {},
    write: (bytes) => terminal.write(bytes),
    reset: () => terminal.reset(),
    fit() {
      if (!element.isConnected || element.clientHeight === 0) return;
      if (!isOpen) open();
      fit.fit();
    },
    focus: () => terminal.focus(),
    paste: (text) => terminal.paste(text),
    arrowPrefix: () => (terminal.modes.applicationCursorKeysMode ? '\u001bO' : '\u001b['),
    find(words, to) {
      if (words === '') return emulator.endFind();
      if (to === 'before') search.findPrevious(words, SEARCH);
      else search.findNext(words, { ...SEARCH, incremental: to === 'as typed' });
    },
    endFind() {
      search.clearDecorations();
      terminal.clearSelection();
      found.value = NOT_FOUND;
    },
    close: () => {
      endReadOut();
      terminal.dispose();
    },
  };
  return emulator;
}
