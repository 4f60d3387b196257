/** Which image a container starts from: one of those that the platform knows, or any other by its name. */
import { useState } from 'preact/hooks';
import { client } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import { SelectField, TextField } from '../../parts/field.tsx';
import { t } from '../../text/text.ts';
import type { CreateDraft } from './draft.ts';

interface ImageFieldProps {
  readonly draft: CreateDraft;
  readonly change: (part: Partial<CreateDraft>) => void;
  readonly error: string | undefined;
}

const OTHER = 'other';
const BUILTIN = '';

export function ImageField({ draft, change, error }: ImageFieldProps) {
  const [isOther, setOther] = useState(false);
  const images = useLoaded((signal) => client.call('listImages', undefined, { signal }));
  // The first is the default one, which has a choice of its own.
  const others = (images.value ?? []).slice(1).map(({ name, image, alias = image, built }) => {
    return [alias, built === false ? t.create.toBuild(name) : name] as const;
  });
  const choose = (value: string) => {
    setOther(value === OTHER);
    change({ image: value === OTHER ? '' : value });
  };
  return (
    <div class="two">
      <SelectField
        label={t.create.image}
        hint={t.create.imageHint}
        error={isOther ? undefined : error}
        value={isOther ? OTHER : draft.image}
        choices={[[BUILTIN, t.create.builtin], ...others, [OTHER, t.create.otherImage]]}
        onChange={choose}
      />
      {isOther && (
        <TextField
          label={t.create.imageName}
          error={error}
          value={draft.image}
          onInput={(image) => change({ image })}
          placeholder="docker.io/library/debian:12"
          attributes={{ maxLength: 512, autocomplete: 'off' }}
        />
      )}
    </div>
  );
}
