/** Which rows of a table are shown, and in which order. */

/** What a row says in a column. */
export interface TableColumn<T> {
  /** As in `status:failed` and in the address. */
  readonly id: string;
  /** Sorted by it, and found by it. */
  readonly of: (row: T) => string | number;
}

/** An order of rows. An empty id: as they are given. */
export interface SortOrder {
  readonly id: string;
  readonly isDown: boolean;
}

/** `-age` as by age, the other way round. */
export function sortOf(text: string): SortOrder {
  return text.startsWith('-') ? { id: text.slice(1), isDown: true } : { id: text, isDown: false };
}

const names = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });

/** Rows of the same value keep their order. */
export function sorted<T>(rows: readonly T[], columns: readonly TableColumn<T>[], { id, isDown }: SortOrder): T[] {
  const column = columns.find((one) => one.id === id);
  if (column === undefined) return [...rows];
  const sign = isDown ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [column.of(a), column.of(b)];
    return sign * (typeof x === 'number' && typeof y === 'number' ? x - y : names.compare(String(x), String(y)));
  });
}

/** Rows that have each word of `text` somewhere, or in the column that the word names: `status:failed mira`. */
export function found<T>(rows: readonly T[], columns: readonly TableColumn<T>[], text: string): readonly T[] {
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  if (words.length === 0) return rows;
  return rows.filter((row) => words.every((word) => hasWord(row, columns, word)));
}

function hasWord<T>(row: T, columns: readonly TableColumn<T>[], word: string): boolean {
  const says = (column: TableColumn<T>, part: string) => String(column.of(row)).toLowerCase().includes(part);
  const [name = '', ...rest] = word.split(':');
  const column = rest.length === 0 ? undefined : columns.find(({ id }) => id === name);
  return column === undefined ? columns.some((one) => says(one, word)) : says(column, rest.join(':'));
}
