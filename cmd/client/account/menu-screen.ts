/** What the menu looks like. */
import type { Container } from '../../../client/index.ts';
import { clean } from '../clean.ts';
import { age, cut, type Output, padded } from '../output.ts';

/** What is shown. */
interface MenuView {
  /** Undefined while they are not known yet. */
  readonly containers: readonly Container[] | undefined;
  /** The id of the chosen one. */
  readonly chosen: string;
  readonly message: string;
  readonly who: string;
  readonly columns: number;
  readonly rows: number;
}

const HOME = '\x1b[H';
const REST_OF_LINE = '\x1b[K';
const REST_OF_SCREEN = '\x1b[J';
const KEYS = [
  ['↑↓', 'choose'],
  ['Enter', 'shell'],
  ['l', 'logs'],
  ['s', 'start or stop'],
  ['c', 'create'],
  ['q', 'quit'],
] as const;
/** Lines around the list: title, blank, heads; blank, reason, keys. */
const AROUND = 6;
const WIDTHS = { name: 20, status: 14, size: 6, memory: 13, created: 7 } as const;

/** The whole screen. */
export function drawMenu(out: Output, view: MenuView): string {
  const { containers, columns, rows } = view;
  const width = Math.max(20, columns - 1);
  const fits = Math.max(1, rows - AROUND);
  const lines = [title(out, view, width), ''];
  if (containers === undefined) lines.push(out.paint('  ...', 'dim'));
  else if (containers.length === 0) lines.push('  You have no container yet.');
  else {
    lines.push(out.paint(cut(`    ${cells(['NAME', 'STATUS', 'SIZE', 'MEMORY', 'CREATED'])}`, width).trimEnd(), 'dim'));
    const at = Math.max(
      0,
      containers.findIndex(({ id }) => id === view.chosen),
    );
    const first = Math.min(Math.max(0, at - fits + 1), Math.max(0, containers.length - fits));
    for (const [place, container] of containers.slice(first, first + fits).entries())
      lines.push(row(out, container, first + place, first + place === at, width));
  }
  const chosen = containers?.find(({ id }) => id === view.chosen);
  const reason = chosen === undefined || chosen.status === 'running' ? '' : (chosen.status_reason ?? '');
  const said = view.message === '' ? reason : view.message;
  // The last two lines stay where they are, whatever the list holds.
  while (lines.length < rows - 2) lines.push('');
  lines.push(cut(`  ${clean(said)}`, width).trimEnd(), keys(out, width));
  return (
    HOME +
    lines
      .slice(-rows)
      .map((line) => line + REST_OF_LINE)
      .join('\r\n') +
    REST_OF_SCREEN
  );
}

function title(out: Output, { who, containers }: MenuView, width: number): string {
  const count = containers === undefined ? '' : `${containers.length} container${containers.length === 1 ? '' : 's'}`;
  const left = cut(`  ${clean(who)}`, Math.max(0, width - count.length - 1));
  return out.paint(left.padEnd(width - count.length), 'bold') + out.paint(count, 'dim');
}

function row(out: Output, container: Container, place: number, isChosen: boolean, width: number): string {
  const { name, status, instance_type, memory_used_mb, memory_mb, created_at } = container;
  const number = place < 9 ? String(place + 1) : ' ';
  const shape = clean(out.status(status)).replaceAll(/\p{Cc}\[[0-9;]*m/gu, '');
  const text = cells([
    clean(name),
    shape,
    instance_type,
    `${memory_used_mb}/${memory_mb} MB`,
    age(Date.now() - Date.parse(created_at)),
  ]);
  const line = cut(`${isChosen ? '›' : ' '} ${number} ${text}`, width);
  const [before = '', after] = splitAt(line, shape);
  const bold = (part: string) => (isChosen ? out.paint(part, 'bold') : part);
  return after === undefined ? bold(line) : bold(before) + out.status(status) + bold(after);
}

/** What is before and after a text; all of it where the text is cut off. */
function splitAt(line: string, text: string): readonly [string, string?] {
  // A name may hold the text, too.
  const at = line.lastIndexOf(text);
  return at < 0 ? [line] : [line.slice(0, at), line.slice(at + text.length)];
}

function cells([name = '', status = '', size = '', memory = '', created = '']: readonly string[]): string {
  return [
    padded(name, WIDTHS.name),
    padded(status, WIDTHS.status),
    padded(size, WIDTHS.size),
    padded(memory, WIDTHS.memory),
    padded(created, WIDTHS.created),
  ].join('  ');
}

function keys(out: Output, width: number): string {
  const bare = KEYS.map(([key, does]) => `${key} ${does}`).join('   ');
  if (bare.length + 2 > width) return cut(`  ${bare}`, width);
  return `  ${KEYS.map(([key, does]) => `${out.paint(key, 'bold')} ${out.paint(does, 'dim')}`).join('   ')}`;
}
