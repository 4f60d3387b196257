/** The palette: things, places and deeds by their names, with the keyboard alone. */
import './palette.css';
import { Search } from 'lucide';
import { useEffect, useRef, useState } from 'preact/hooks';
import { useDeed } from '../core/deed.ts';
import { isPaletteOpen } from '../core/keys.ts';
import { go, place } from '../core/router.ts';
import { Icon } from '../parts/icon.tsx';
import { Failure } from '../parts/note.tsx';
import { t } from '../text/text.ts';
import { type PaletteDeed, paletteDeeds } from './deeds.ts';
import { matchName, type NameMatch } from './match.ts';

/** Lines that are shown at most. */
const MOST = 40;
const LIST = 'palette-list';

/** A deed that fits what is typed. */
interface FittingDeed {
  readonly deed: PaletteDeed;
  readonly match: NameMatch;
}

export function Palette() {
  const box = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState('');
  const [chosen, setChosen] = useState(0);
  const shown = fitting(paletteDeeds(place.value.path), text);
  const at = Math.min(chosen, Math.max(0, shown.length - 1));
  const close = () => {
    // The focus goes back first: what follows may move it elsewhere.
    box.current?.close();
    isPaletteOpen.value = false;
  };
  const work = useDeed(async ({ run, after, href }: PaletteDeed) => {
    await run?.();
    close();
    after?.();
    if (href !== undefined) go(href);
  });
  useEffect(() => {
    const dialog = box.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  useEffect(() => {
    document.getElementById(optionId(at))?.scrollIntoView({ block: 'nearest' });
  }, [at, text]);
  const keys = (event: KeyboardEvent) => {
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 + shown.length }[event.key];
    const deed = shown[at]?.deed;
    if (to !== undefined && shown.length > 0) setChosen(to % shown.length);
    else if (event.key !== 'Enter' || deed === undefined) return;
    else if (deed.href !== undefined && (event.ctrlKey || event.metaKey)) open(deed.href, '_blank', 'noopener');
    else if (deed.reason === undefined) void work.run(deed);
    event.preventDefault();
  };
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: a press beside it is one more way out; Escape is there
    <dialog
      class="palette"
      ref={box}
      aria-label={t.palette.label}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onClick={(event) => {
        if (event.target === box.current) close();
      }}
    >
      <div class="ask">
        <Icon of={Search} size={18} />
        <input
          type="text"
          role="combobox"
          aria-label={t.palette.label}
          aria-expanded="true"
          aria-controls={LIST}
          aria-autocomplete="list"
          aria-activedescendant={shown.length > 0 ? optionId(at) : undefined}
          placeholder={t.palette.open}
          autocomplete="off"
          autocapitalize="none"
          spellcheck={false}
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setChosen(0);
            work.clear();
          }}
          onKeyDown={keys}
        />
        <button type="button" class="esc" onClick={close}>
          <span class="sr">{t.dialog.close}</span>
          <kbd>Esc</kbd>
        </button>
      </div>
      <Failure error={work.error} />
      <Results shown={shown} chosen={at} busy={work.isBusy} onChoose={setChosen} onDo={(deed) => void work.run(deed)} />
      {shown.length === 0 && (
        <p class="none" role="status">
          {t.palette.none(text)}
        </p>
      )}
      <footer class="hide-s">
        <span>
          <kbd>↑</kbd> <kbd>↓</kbd> {t.palette.choose}
        </span>
        <span>
          <kbd>Enter</kbd> {t.palette.doIt}
        </span>
        <span>
          <kbd>Ctrl</kbd> <kbd>Enter</kbd> {t.palette.newTab}
        </span>
        <span>
          <kbd>Ctrl</kbd> <kbd>Shift</kbd> <kbd>X</kbd> {t.palette.leave}
        </span>
      </footer>
    </dialog>
  );
}

/** Those that fit best first, but the lines of a group stay together. */
function fitting(deeds: readonly PaletteDeed[], text: string): FittingDeed[] {
  const all = deeds.flatMap((deed) => {
    const match = matchName(deed.name, text);
    return match === undefined ? [] : [{ deed, match }];
  });
  const best = new Map<string, number>();
  for (const { deed, match } of all) best.set(deed.group, Math.max(best.get(deed.group) ?? 0, match.score));
  const byGroup = [...best].sort(([, a], [, b]) => b - a).map(([group]) => group);
  return byGroup
    .flatMap((group) => all.filter(({ deed }) => deed.group === group).sort((a, b) => b.match.score - a.match.score))
    .slice(0, MOST);
}

interface ResultsProps {
  readonly shown: readonly FittingDeed[];
  readonly chosen: number;
  readonly busy: boolean;
  readonly onChoose: (at: number) => void;
  readonly onDo: (deed: PaletteDeed) => void;
}

function Results({ shown, chosen, busy, onChoose, onDo }: ResultsProps) {
  const groups = [...new Set(shown.map(({ deed }) => deed.group))];
  return (
    <div class="results" role="listbox" id={LIST} aria-label={t.palette.results} aria-busy={busy}>
      {groups.map((group) => (
        // biome-ignore lint/a11y/useSemanticElements: a fieldset is no part of a listbox
        <div key={group} role="group" aria-label={group}>
          <p class="group" aria-hidden="true">
            {group}
          </p>
          {shown.map(
            ({ deed, match }, at) =>
              deed.group === group && (
                <Option
                  key={deed.id}
                  deed={deed}
                  match={match}
                  at={at}
                  isChosen={at === chosen}
                  onChoose={onChoose}
                  onDo={onDo}
                />
              ),
          )}
        </div>
      ))}
    </div>
  );
}

interface OptionProps extends FittingDeed {
  readonly at: number;
  readonly isChosen: boolean;
  readonly onChoose: (at: number) => void;
  readonly onDo: (deed: PaletteDeed) => void;
}

/** The input keeps the focus, and says which line is chosen. */
function Option({ deed, match, at, isChosen, onChoose, onDo }: OptionProps) {
  const { name, icon, key, command, reason } = deed;
  return (
    // biome-ignore lint/a11y/useFocusableInteractive: the input has the focus (aria-activedescendant)
    // biome-ignore lint/a11y/useKeyWithClickEvents: the input hears the keys
    <div
      class="option"
      role="option"
      id={optionId(at)}
      aria-selected={isChosen}
      aria-disabled={reason === undefined ? undefined : true}
      onPointerMove={() => onChoose(at)}
      onClick={() => {
        if (reason === undefined) onDo(deed);
      }}
    >
      <Icon of={icon} />
      <span class="what">
        {lettersOf(name, match.at)}
        {reason !== undefined && <span class="why">{reason}</span>}
      </span>
      {command !== undefined && <code class="hide-s">{command}</code>}
      {key !== undefined && (
        <span class="keys">
          {key.split(' ').map((one) => (
            <kbd key={one}>{one}</kbd>
          ))}
        </span>
      )}
    </div>
  );
}

/** A name whose letters that fit stand out. */
function lettersOf(name: string, at: ReadonlySet<number>) {
  const runs: { text: string; fits: boolean }[] = [];
  for (const [n, letter] of [...name].entries()) {
    const last = runs.at(-1);
    if (last !== undefined && last.fits === at.has(n)) last.text += letter;
    else runs.push({ text: letter, fits: at.has(n) });
  }
  return runs.map(({ text, fits }, n) => (fits ? <b key={String(n)}>{text}</b> : text));
}

function optionId(at: number): string {
  return `${LIST}-${at}`;
}
