/** Fields of forms: label above, hint and error below, tied to the control. */
import './field.css';
import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';

/** What every field says about itself. */
interface FieldWords {
  readonly label: string;
  readonly hint?: ComponentChildren;
  /** What is wrong with it, a sentence. */
  readonly error?: string | undefined;
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
  readonly type?: 'text' | 'password';
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
      ) : (
        <input {...common} type="text" onInput={take} {...more.attributes} />
      )}
      <Below id={id} hint={hint} error={error} />
    </div>
  );
}

/** A choice with its name, as it is sent and as it is shown. */
type Choice = readonly [value: string, name: string];

interface SelectFieldProps extends FieldWords {
  readonly value: string;
  readonly choices: readonly Choice[];
  readonly onChange: (value: string) => void;
}

export function SelectField({ label, hint, error, value, choices, onChange }: SelectFieldProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select
        id={id}
        value={value}
        aria-invalid={error === undefined ? undefined : true}
        aria-describedby={describedBy(id, hint, error)}
        onChange={(event) => onChange(event.currentTarget.value)}
      >
        {choices.map(([choice, name]) => (
          <option key={choice} value={choice} selected={choice === value}>
            {name}
          </option>
        ))}
      </select>
      <Below id={id} hint={hint} error={error} />
    </div>
  );
}

interface CheckProps {
  readonly label: string;
  readonly hint?: string;
  readonly checked: boolean;
  readonly onChange: (checked: boolean) => void;
}

export function Check({ label, hint, checked, onChange }: CheckProps) {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} onChange={(event) => onChange(event.currentTarget.checked)} />
      <span>
        {label}
        {hint !== undefined && <span class="hint">{hint}</span>}
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

function Below({ id, hint, error }: Omit<FieldWords, 'label'> & { readonly id: string }) {
  return (
    <>
      {hint !== undefined && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
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

function describedBy(id: string, hint: ComponentChildren, error: string | undefined): string | undefined {
  const ids = [...(hint === undefined ? [] : [`${id}-hint`]), ...(error === undefined ? [] : [`${id}-wrong`])];
  return ids.length === 0 ? undefined : ids.join(' ');
}
