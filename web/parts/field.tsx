/** Fields of forms: label above, hint and error below, tied to the control. */
import './field.css';
import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import { offlineReason } from './offline.ts';

/** What every field says about itself. */
interface FieldWords {
  readonly label: string;
  readonly hint?: ComponentChildren;
  /** What is wrong with it, a sentence. */
  readonly error?: string | undefined;
}

/** A choice that is saved as soon as it is made. */
interface SavedAtOnce {
  /** Whether it is being saved. What has this asks the platform, and cannot while the browser is offline. */
  readonly busy?: boolean;
}

/** What else an input may say to the browser. */
interface InputAttributes {
  readonly name?: string;
  readonly autocomplete?: 'off' | 'username' | 'current-password' | 'new-password' | 'email' | 'one-time-code';
  readonly required?: boolean;
  readonly autofocus?: boolean;
  readonly maxLength?: number;
  readonly inputMode?: 'numeric' | 'text' | 'url' | 'email';
}

interface TextFieldProps extends FieldWords {
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly type?: 'text' | 'password' | 'datetime-local';
  readonly big?: boolean;
  /** Several lines. */
  readonly rows?: number;
  readonly placeholder?: string;
  readonly attributes?: InputAttributes;
}

export function TextField({ label, hint, error, value, onInput, type = 'text', rows, ...more }: TextFieldProps) {
  const id = useId();
  const take = (event: { readonly currentTarget: { readonly value: string } }) => onInput(event.currentTarget.value);
  const common = {
    id,
    value,
    placeholder: more.placeholder,
    'aria-invalid': error === undefined ? undefined : true,
    'aria-describedby': describedBy(id, hint, error),
    autocapitalize: 'none',
    spellcheck: false,
  } as const;
  return (
    <div class={`field ${more.big ? 'big' : ''}`}>
      <label for={id}>{label}</label>
      {rows !== undefined ? (
        <textarea {...common} rows={rows} onInput={take} />
      ) : type === 'password' ? (
        <input {...common} type="password" onInput={take} {...more.attributes} />
      ) : type === 'datetime-local' ? (
        <input {...common} type="datetime-local" onInput={take} {...more.attributes} />
      ) : (
        <input {...common} type="text" onInput={take} {...more.attributes} />
      )}
      <Below id={id} hint={hint} error={error} />
    </div>
  );
}

/** A choice with its name, as it is sent and as it is shown. */
type Choice = readonly [value: string, name: string];

interface SelectFieldProps extends FieldWords, SavedAtOnce {
  readonly value: string;
  readonly choices: readonly Choice[];
  readonly onChange: (value: string) => void;
}

export function SelectField({ label, hint, error, value, choices, onChange, busy }: SelectFieldProps) {
  const id = useId();
  const reason = offlineReason(busy !== undefined);
  const isOff = reason !== undefined || busy === true;
  const take = (event: { readonly currentTarget: HTMLSelectElement }) => {
    if (!isOff) onChange(event.currentTarget.value);
    // A touch has opened it all the same.
    else event.currentTarget.value = value;
  };
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select
        id={id}
        value={value}
        aria-invalid={error === undefined ? undefined : true}
        aria-describedby={describedBy(id, hint, error, reason)}
        aria-disabled={reason === undefined ? undefined : true}
        onMouseDown={isOff ? (event) => keepShut(event) : undefined}
        onKeyDown={isOff ? keepValue : undefined}
        onChange={take}
      >
        {choices.map(([choice, name]) => (
          <option key={choice} value={choice} selected={choice === value}>
            {name}
          </option>
        ))}
      </select>
      <Below id={id} hint={hint} error={error} reason={reason} />
    </div>
  );
}

/** It has the focus and does not open. */
function keepShut(event: MouseEvent & { readonly currentTarget: HTMLElement }): void {
  event.preventDefault();
  event.currentTarget.focus();
}

/** Keys that lead away go on. */
function keepValue(event: KeyboardEvent): void {
  if (event.key !== 'Tab' && !event.ctrlKey && !event.metaKey) event.preventDefault();
}

interface CheckProps extends SavedAtOnce {
  readonly label: string;
  readonly hint?: string;
  readonly checked: boolean;
  readonly onChange: (checked: boolean) => void;
}

export function Check({ label, hint, checked, onChange, busy }: CheckProps) {
  const reason = offlineReason(busy !== undefined);
  const press = (event: Event) => {
    if (reason !== undefined || busy === true) event.preventDefault();
  };
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={checked}
        aria-disabled={reason === undefined ? undefined : true}
        onClick={press}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <span>
        {label}
        {hint !== undefined && <span class="hint">{hint}</span>}
        {reason !== undefined && <span class="why">{reason}</span>}
      </span>
    </label>
  );
}

interface RadioCardsProps extends FieldWords {
  readonly value: string;
  readonly choices: readonly (readonly [value: string, name: string, detail: string])[];
  readonly onChange: (value: string) => void;
}

export function RadioCards({ label, hint, error, value, choices, onChange }: RadioCardsProps) {
  const id = useId();
  return (
    <fieldset class="field" aria-describedby={describedBy(id, hint, error)}>
      <legend class="label">{label}</legend>
      <div class="cards">
        {choices.map(([choice, name, detail]) => (
          <label class="card" key={choice}>
            <input type="radio" name={id} value={choice} checked={choice === value} onChange={() => onChange(choice)} />
            <b>{name}</b>
            <span>{detail}</span>
          </label>
        ))}
      </div>
      <Below id={id} hint={hint} error={error} />
    </fieldset>
  );
}

interface BelowProps extends Omit<FieldWords, 'label'> {
  readonly id: string;
  /** Why it cannot be changed now. */
  readonly reason?: string | undefined;
}

function Below({ id, hint, error, reason }: BelowProps) {
  return (
    <>
      {hint !== undefined && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {reason !== undefined && (
        <p class="why" id={`${id}-why`}>
          {reason}
        </p>
      )}
      {error !== undefined && (
        <p class="wrong" id={`${id}-wrong`} role="alert">
          {error}
        </p>
      )}
    </>
  );
}

function describedBy(id: string, hint: ComponentChildren, error?: string, reason?: string): string | undefined {
  const parts = { hint, why: reason, wrong: error };
  const ids = Object.entries(parts).flatMap(([part, words]) => (words === undefined ? [] : [`${id}-${part}`]));
  return ids.length === 0 ? undefined : ids.join(' ');
}
