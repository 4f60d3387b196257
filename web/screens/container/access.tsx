/** Who gets through at a port where the platform does HTTPS. */
import { SelectField, TextField } from '../../parts/field.tsx';
import { t } from '../../text/text.ts';

const KINDS = ['public', 'password', 'mine'] as const;

/** As the platform names it. */
export type PortAccess = (typeof KINDS)[number];

interface AccessFieldsProps {
  readonly access: PortAccess;
  readonly onAccess: (access: PortAccess) => void;
  readonly password: string;
  readonly onPassword: (password: string) => void;
  /** What is wrong with the password. */
  readonly error: string | undefined;
}

export function AccessFields({ access, onAccess, password, onPassword, error }: AccessFieldsProps) {
  const choose = (value: string) => onAccess(KINDS.find((kind) => kind === value) ?? 'public');
  return (
    <>
      <SelectField
        label={t.network.access}
        hint={access === 'mine' ? t.network.mineHint : undefined}
        value={access}
        choices={Object.entries(t.network.accessChoices)}
        onChange={choose}
      />
      {access === 'password' && (
        <TextField
          label={t.network.password}
          hint={t.network.passwordHint}
          error={error}
          type="password"
          value={password}
          onInput={onPassword}
          attributes={{ required: true, maxLength: 128, autocomplete: 'new-password' }}
        />
      )}
    </>
  );
}
