/** The log of a container: followed until somebody scrolls up, with a search that counts. */
import './log.css';
import { Download, Search } from 'lucide';
import { useEffect, useState } from 'preact/hooks';
import type { Container } from '../../../../client/index.ts';
import { saveText } from '../../../core/download.ts';
import { count } from '../../../core/format.ts';
import { remember, remembered } from '../../../core/memory.ts';
import { Button } from '../../../parts/button.tsx';
import { Icon } from '../../../parts/icon.tsx';
import { Failure } from '../../../parts/note.tsx';
import { Status } from '../../../parts/status.tsx';
import { t } from '../../../text/text.ts';
import { hasRow, type LogBlock, type LogLines } from './lines.ts';
import { LogRows } from './rows.tsx';
import { useScrolling } from './scrolling.ts';
import { rowsWith } from './search.ts';
import { plainText } from './sgr.ts';
import { type LogFlow, useLog } from './source.ts';

/** What scrolls is reached by the keyboard. Lines are not read out as they come: there may be hundreds a second. */
const SCROLLABLE = { role: 'log', 'aria-live': 'off', 'aria-label': t.container.logs, tabIndex: 0 } as const;
/** Who types goes on typing: ten thousand lines are searched once a pause has been as long as this, ms. */
const PAUSE_MS = 150;

export function LogPane({ container }: { readonly container: Container }) {
  const { lines, flow, error } = useLog(container);
  const [isWrapped, setWrapped] = useKept('log.wrap', true);
  const [isUtc, setUtc] = useKept('log.utc', false);
  const blocks = lines.blocks.value;
  const { words, sought, found, at, current, setWords, step } = useSearch(blocks);
  const scroll = useScrolling(lines, sought !== '');
  useEffect(() => {
    if (current !== undefined) scroll.show(current);
  }, [current]);
  const lookOf = (block: LogBlock) => ({
    isUtc,
    words: scroll.isNear(block.first) && rowsWith(block, sought).length > 0 ? sought : '',
    current: current !== undefined && hasRow(block, current) ? current : undefined,
  });
  return (
    <section class={`panel log pane log-pane ${isWrapped ? 'wrap' : ''}`} aria-label={t.container.logs}>
      <header>
        <h2>{t.container.logs}</h2>
        <FindField words={words} onWords={setWords} step={step} at={at} of={sought === '' ? undefined : found.length} />
        <Button kind="bare" icon={Download} label={t.log.save} onClick={() => save(container, lines)} />
      </header>
      <Failure error={error} />
      <div class="scroll" {...SCROLLABLE} ref={scroll.box} onScroll={scroll.onScroll}>
        <LogRows key={container.id} place={scroll.rows} blocks={blocks} lookOf={lookOf} />
        {blocks.length === 0 && flow !== 'connecting' && <p class="gap">{t.log.empty}</p>}
      </div>
      {scroll.fresh > 0 && (
        <Button kind="main" class="fresh" onClick={scroll.toEnd}>
          {t.log.fresh(scroll.fresh)}
        </Button>
      )}
      <footer>
        <Flow flow={flow} />
        <span class="num hide-s">{t.log.lines(count(lines.count))}</span>
        <Button kind="bare" class="away" onClick={() => setUtc(!isUtc)}>
          {isUtc ? t.log.utc : t.log.local}
        </Button>
        <Button kind="bare" pressed={isWrapped} onClick={() => setWrapped(!isWrapped)}>
          {t.log.wrap}
        </Button>
      </footer>
    </section>
  );
}

/** What is looked for: the rows that have it, and the one that the search is at, for as long as that is kept. */
function useSearch(blocks: readonly LogBlock[]) {
  const [words, setWords] = useState('');
  const [sought, setSought] = useState('');
  const [current, setCurrent] = useState<number>();
  const found = sought === '' ? [] : blocks.flatMap((block) => rowsWith(block, sought));
  const [first] = found;
  const seek = () => {
    setSought(words.trim());
    setCurrent(undefined);
  };
  useEffect(() => {
    const soon = setTimeout(seek, words === '' ? 0 : PAUSE_MS);
    return () => clearTimeout(soon);
  }, [words]);
  useEffect(() => {
    // Also when what is looked for comes later.
    if (current === undefined && first !== undefined) setCurrent(first);
  }, [current, first]);
  const next = current === undefined ? 0 : found.findIndex((n) => n >= current);
  const at = Math.max(0, next);
  const step = (by: number) => {
    if (sought !== words.trim()) seek();
    else setCurrent(found[(at + by + found.length) % found.length]);
  };
  return { words, sought, found, at, current, setWords, step };
}

function Flow({ flow }: { readonly flow: LogFlow }) {
  if (flow === 'live') return <Status shape="running">{t.link.live}</Status>;
  if (flow === 'ended') return <Status shape="stopped">{t.log.ended}</Status>;
  return <Status shape="starting">{t.link.connecting}</Status>;
}

interface FindFieldProps {
  readonly words: string;
  readonly onWords: (words: string) => void;
  readonly step: (by: number) => void;
  readonly at: number;
  /** How many were found; undefined before it was looked for them. */
  readonly of: number | undefined;
}

function FindField({ words, onWords, step, at, of }: FindFieldProps) {
  const keys = (event: KeyboardEvent) => {
    if (event.key === 'Enter') step(event.shiftKey ? -1 : 1);
    else if (event.key === 'Escape') onWords('');
    else return;
    event.preventDefault();
  };
  return (
    <div class="find">
      <Icon of={Search} size={14} />
      <input
        type="text"
        value={words}
        aria-label={t.log.find}
        placeholder={t.log.find}
        autocapitalize="none"
        spellcheck={false}
        onInput={(event) => onWords(event.currentTarget.value)}
        onKeyDown={keys}
      />
      {words.trim() !== '' && of !== undefined && (
        <span class="faint num tiny" role="status">
          {of === 0 ? t.log.none : t.log.found(at + 1, of)}
        </span>
      )}
    </div>
  );
}

/** A choice that this browser remembers. */
function useKept(name: string, usual: boolean): readonly [boolean, (value: boolean) => void] {
  const [value, setValue] = useState(() => {
    const kept = remembered(name);
    return kept === undefined ? usual : kept === 'yes';
  });
  const keep = (to: boolean) => {
    remember(name, to ? 'yes' : 'no');
    setValue(to);
  };
  return [value, keep];
}

/** As a file, without colours. */
function save({ name }: Container, lines: LogLines): void {
  const text = lines.blocks.value
    .flatMap(({ rows }) => rows.filter(({ gap }) => gap === undefined))
    .map((row) => `${row.stamp} ${plainText(row.text)}\n`);
  saveText(`${name}.log`, ...text);
}
