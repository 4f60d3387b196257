/** The choice of what a container may reach. */
import { type EgressChoice, egressChoice } from '../core/egress.ts';
import { t } from '../text/text.ts';
import { SelectField, TextField } from './field.tsx';

interface EgressFieldsProps {
  readonly choice: EgressChoice;
  /** With spaces, commas or line ends between them. */
  readonly networks: string;
  readonly error: string | undefined;
  readonly onChoice: (choice: EgressChoice) => void;
  readonly onNetworks: (networks: string) => void;
}

export function EgressFields({ choice, networks, error, onChoice, onNetworks }: EgressFieldsProps) {
  return (
    <>
      <SelectField
        label={t.egress.reach}
        hint={t.egress.hint}
        error={choice === 'list' ? undefined : error}
        value={choice}
        choices={[
          ['any', t.egress.any],
          ['none', t.egress.none],
          ['list', t.egress.list],
        ]}
        onChange={(value) => onChoice(egressChoice(value))}
      />
      {choice === 'list' && (
        <TextField
          label={t.egress.networks}
          hint={t.egress.networksHint}
          error={error}
          rows={3}
          value={networks}
          onInput={onNetworks}
        />
      )}
    </>
  );
}
