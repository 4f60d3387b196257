/** What gateways keep of the answers at a port, a hostname or a route: a field for what is opened, and a change. */
import { Archive } from 'lucide';
import { useState } from 'preact/hooks';
import type { CallInput } from '../../client/index.ts';
import { useDeed } from '../core/deed.ts';
import { t } from '../text/text.ts';
import { Button } from './button.tsx';
import { AsCommand } from './copy.tsx';
import { SelectField } from './field.tsx';
import { FormDialog, FormFailure } from './form.tsx';
import { toast } from './toast.tsx';

/** As the platform names it. */
export type CacheChoice = NonNullable<CallInput<'addIngress'>['body']['cache']>;

/** What is opened here: an app that says nothing of caching is shown as it is now. */
export const CACHE_OF_OPENED: CacheChoice = 'explicit';

const MODES = ['explicit', 'default', 'off'] as const;

interface CacheFieldProps {
  readonly value: CacheChoice;
  readonly onChange: (mode: CacheChoice) => void;
}

export function CacheField({ value, onChange }: CacheFieldProps) {
  return (
    <SelectField
      label={t.cache.label}
      hint={t.cache.hints[value]}
      value={value}
      choices={MODES.map((mode) => [mode, t.cache.choices[mode]])}
      onChange={(chosen) => onChange(MODES.find((mode) => mode === chosen) ?? CACHE_OF_OPENED)}
    />
  );
}

interface CacheChangeProps {
  /** What it is of, such as `port 80`. */
  readonly what: string;
  readonly mode: CacheChoice;
  /** Has the platform change it. */
  readonly change: (mode: CacheChoice) => Promise<unknown>;
  /** The same on a command line, and by curl. */
  readonly troupe: (mode: CacheChoice) => string;
  readonly curl: (mode: CacheChoice) => string;
}

/** The button, and the dialog that it opens. */
export function CacheChange(props: CacheChangeProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button kind="bare" icon={Archive} label={t.cache.change(props.what)} onClick={() => setOpen(true)} />
      {isOpen && <CacheDialog {...props} onClose={() => setOpen(false)} />}
    </>
  );
}

function CacheDialog({
  what,
  mode,
  change,
  troupe,
  curl,
  onClose,
}: CacheChangeProps & { readonly onClose: () => void }) {
  const [chosen, setChosen] = useState(mode);
  const deed = useDeed(async () => {
    await change(chosen);
    toast(t.cache.changed(what));
    onClose();
  });
  return (
    <FormDialog title={t.cache.title(what)} verb={t.cache.verb} deed={deed} onClose={onClose}>
      <CacheField value={chosen} onChange={setChosen} />
      <FormFailure of={deed} />
      <AsCommand troupe={troupe(chosen)} curl={curl(chosen)} />
    </FormDialog>
  );
}
