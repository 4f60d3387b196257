/**
 * Tables of the administrator: filtered by what is typed, sorted by a press on a column's name. Both are in the
 * address, so that they can be sent and come back to. On phones each row is a card.
 */
import './panel.css';
import './table.css';
import { ArrowUp, Rows2, Rows3, Search } from 'lucide';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { remember, remembered } from '../core/memory.ts';
import { go, place } from '../core/router.ts';
import { t } from '../text/text.ts';
import { Button } from './button.tsx';
import { Icon } from './icon.tsx';
import { found, type SortOrder, sorted, sortOf, type TableColumn } from './table-rules.ts';

interface ColumnOf<T> extends TableColumn<T> {
  /** The column's name for people. */
  readonly name: string;
  /** What is shown; without it the value. */
  readonly cell?: (row: T) => ComponentChildren;
  readonly isNumber?: boolean;
}

interface DataTableProps<T> {
  /** What the table is called. */
  readonly label: string;
  /** Whether it says so above, because the page has more than this. */
  readonly isTitled?: boolean;
  readonly rows: readonly T[];
  /** The first one names the row. */
  readonly columns: readonly ColumnOf<T>[];
  readonly keyOf: (row: T) => string | number;
  /** How it is sorted at first: a column's id, with `-` before it the other way round. Without: as given. */
  readonly order?: string;
  /** Filters that help, such as `status:failed`. */
  readonly hint?: string;
  readonly deeds?: (row: T) => ComponentChildren;
}

export function DataTable<T>({ label, isTitled, rows, columns, keyOf, order = '', hint, deeds }: DataTableProps<T>) {
  const { query } = place.value;
  const text = query.get('q') ?? '';
  const sort = sortOf(query.get('sort') ?? order);
  const [isDense, setDense] = useState(remembered('dense') === 'yes');
  const shown = sorted(found(rows, columns, text), columns, sort);
  const toggle = () => {
    remember('dense', isDense ? undefined : 'yes');
    setDense(!isDense);
  };
  return (
    <section class="panel" aria-label={label}>
      <div class="table-tools">
        {isTitled && <h2>{label}</h2>}
        <search class="finder">
          <Icon of={Search} />
          <input
            type="search"
            aria-label={t.table.find(label)}
            placeholder={hint ?? t.table.find(label)}
            value={text}
            onInput={(event) => keep('q', event.currentTarget.value)}
            autocapitalize="none"
            spellcheck={false}
          />
        </search>
        <SortChoice columns={columns} sort={sort} />
        <span class="many" role="status">
          {t.table.many(shown.length, rows.length)}
        </span>
        <span class="hide-s">
          <Button
            kind="bare"
            icon={isDense ? Rows2 : Rows3}
            label={isDense ? t.table.loose : t.table.dense}
            onClick={toggle}
          />
        </span>
      </div>
      <div class="table-scroll">
        <table class={`table ${isDense ? 'dense' : ''}`} aria-label={label}>
          <thead>
            <tr>
              {columns.map((column) => (
                <Head key={column.id} column={column} sort={sort} />
              ))}
              {deeds !== undefined && (
                <th>
                  <span class="sr">{t.table.deeds}</span>
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <tr key={keyOf(row)}>
                {columns.map((column, at) => (
                  <Cell key={column.id} column={column} row={row} isName={at === 0} />
                ))}
                {deeds !== undefined && (
                  <td class="deeds">
                    <div class="row">{deeds(row)}</div>
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {shown.length === 0 && rows.length > 0 && (
        <p class="inside dim small">
          {t.table.none(text)}{' '}
          <button class="link" type="button" onClick={() => keep('q', '')}>
            {t.table.all}
          </button>
        </p>
      )}
    </section>
  );
}

interface HeadProps<T> {
  readonly column: ColumnOf<T>;
  readonly sort: SortOrder;
}

function Head<T>({ column: { id, name, isNumber = false }, sort }: HeadProps<T>) {
  const isBy = sort.id === id;
  const next = isBy && !sort.isDown ? `-${id}` : id;
  return (
    <th
      scope="col"
      class={isNumber ? 'number' : ''}
      aria-sort={isBy ? (sort.isDown ? 'descending' : 'ascending') : undefined}
    >
      <button type="button" onClick={() => keep('sort', next)}>
        {name}
        <Icon of={ArrowUp} size={12} />
      </button>
    </th>
  );
}

interface CellProps<T> {
  readonly column: ColumnOf<T>;
  readonly row: T;
  readonly isName: boolean;
}

function Cell<T>({ column, row, isName }: CellProps<T>) {
  const shown = column.cell === undefined ? column.of(row) : column.cell(row);
  if (isName) return <th scope="row">{shown}</th>;
  return (
    <td class={column.isNumber ? 'number' : ''}>
      <span class="only-s name">{column.name}</span>
      <span class="cell">{shown}</span>
    </td>
  );
}

/** Where the names of the columns have no room. */
function SortChoice<T>({ columns, sort }: { readonly columns: readonly ColumnOf<T>[]; readonly sort: SortOrder }) {
  return (
    <label class="sort only-s">
      {t.table.sort}
      <select value={sort.id} onChange={(event) => keep('sort', event.currentTarget.value)}>
        {sort.id === '' && <option value="">{t.table.asGiven}</option>}
        {columns.map(({ id, name }) => (
          <option key={id} value={id} selected={sort.id === id}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** In the address, without a place to come back to for each letter. */
function keep(name: string, value: string): void {
  const query = new URLSearchParams(place.value.query);
  if (value === '') query.delete(name);
  else query.set(name, value);
  const text = query.toString();
  go(`${place.value.path}${text === '' ? '' : `?${text}`}`, { replace: true });
}
