/** The log of a container: followed until somebody scrolls up, with a search that counts. */
import './log.css';
import { Download, Search } from 'lucide';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Container } from '../../../../client/index.ts';
import { saveText } from '../../../core/download.ts';
import { count } from '../../../core/format.ts';
import { remember, remembered } from '../../../core/memory.ts';
import { Button } from '../../../parts/button.tsx';
import { Icon } from '../../../parts/icon.tsx';
import { Failure } from '../../../parts/note.tsx';
import { Status } from '../../../parts/status.tsx';
import { t } from '../../../text/text.ts';
import { LogBlockRows } from './block.tsx';
import { type LogLines, rowsWith } from './lines.ts';
import { plainText } from './sgr.ts';
import { type LogFlow, useLog } from './source.ts';

/** What scrolls is reached by the keyboard. Lines are not read out as they come: there may be hundreds a second. */
const SCROLLABLE = { role: 'log', 'aria-live': 'off', 'aria-label': t.container.logs, tabIndex: 0 } as const;
/** So near to its end a log is followed, px. */
const AT_END = 24;

export function LogPane({ container }: { readonly container: Container }) {
  const { lines, flow, error } = useLog(container);
  const [words, setWords] = useState('');
  const [at, setAt] = useState(0);
  const [isWrapped, setWrapped] = useKept('log.wrap', true);
  const [isUtc, setUtc] = useKept('log.utc', false);
  const blocks = lines.blocks.value;
  const found = rowsWith(blocks, words.trim());
  const current = found[Math.min(at, found.length - 1)];
  const scroll = useFollowing(lines);
  useEffect(() => {
    if (current === undefined) return;
    scroll.stop();
    scroll.box.current?.querySelector(`[data-n="${current}"]`)?.scrollIntoView({ block: 'center' });
  }, [current, words]);
  const step = (by: number) =>
    setAt((before) => (found.length === 0 ? 0 : (before + by + found.length) % found.length));
  return (
    <section class={`panel log pane log-pane ${isWrapped ? 'wrap' : ''}`} aria-label={t.container.logs}>
      <header>
        <h2>{t.container.logs}</h2>
        <FindField words={words} onWords={(to) => [setWords(to), setAt(0)]} step={step} at={at} of={found.length} />
        <Button kind="bare" icon={Download} label={t.log.save} onClick={() => save(container, lines)} />
      </header>
      <Failure error={error} />
      <div class="scroll" {...SCROLLABLE} ref={scroll.box} onScroll={scroll.onScroll}>
        {blocks.map((block) => (
          <LogBlockRows
            key={block.first}
            block={block}
            isUtc={isUtc}
            {...partOf(block, found, current, words.trim())}
          />
        ))}
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

/** What a block is told of the search: nothing, unless it holds a line that was found. */
function partOf(
  { rows }: { readonly rows: readonly { readonly n: number }[] },
  found: readonly number[],
  at: number | undefined,
  words: string,
) {
  const [first = 0, last = 0] = [rows[0]?.n, rows.at(-1)?.n];
  if (!found.some((n) => n >= first && n <= last)) return { words: '', current: undefined };
  return { words, current: at !== undefined && at >= first && at <= last ? at : undefined };
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
  readonly of: number;
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
      {words.trim() !== '' && (
        <span class="faint num tiny" role="status">
          {of === 0 ? t.log.none : t.log.found(at + 1, of)}
        </span>
      )}
    </div>
  );
}

/** Keeps the end in sight until somebody scrolls up, and counts what came since. */
function useFollowing(lines: LogLines) {
  const box = useRef<HTMLDivElement>(null);
  const isFollowing = useRef(true);
  const [seen, setSeen] = useState(0);
  const blocks = lines.blocks.value;
  const toEnd = () => {
    isFollowing.current = true;
    setSeen(lines.count);
    if (box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  };
  useLayoutEffect(() => {
    if (isFollowing.current) toEnd();
  }, [blocks]);
  const stop = () => {
    if (isFollowing.current) setSeen(lines.count);
    isFollowing.current = false;
  };
  const onScroll = () => {
    const scrolled = box.current;
    if (scrolled === null) return;
    if (scrolled.scrollHeight - scrolled.scrollTop - scrolled.clientHeight <= AT_END) toEnd();
    else stop();
  };
  return { box, onScroll, toEnd, stop, fresh: isFollowing.current ? 0 : lines.count - seen };
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
