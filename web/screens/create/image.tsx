/** Which image a container starts from: one of those that the platform knows, or any other by its name. */
import { useState } from 'preact/hooks';
import { imageName } from '../../../client/index.ts';
import { bytesOf } from '../../core/format.ts';
import { client } from '../../core/platform.ts';
import { useLoaded } from '../../core/resource.ts';
import { offer } from '../../live/facts.ts';
import { SelectField, TextField } from '../../parts/field.tsx';
import { t } from '../../text/text.ts';

interface ImageFieldProps {
  /** Its name; empty for the platform's own. */
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly hint: string;
  readonly error: string | undefined;
  /** That of the container now: choosing it again gives this very name. */
  readonly now?: string;
}

const OTHER = 'other';
const DEFAULT = '';

export function ImageField({ value, onChange, hint, error, now = '' }: ImageFieldProps) {
  const [isTyped, setTyped] = useState(false);
  const images = useLoaded((signal) => client.call('listImages', undefined, { signal }));
  const isLimited = offer.value?.limits.images_mb !== undefined;
  const usage = useLoaded(
    async (signal) => (isLimited ? client.call('registryUsage', undefined, { signal }) : undefined),
    [isLimited],
  );
  const { used_bytes: used = 0, limit_bytes: most = null } = usage.value ?? {};
  const held = most === null ? [] : [t.create.imagesHold(bytesOf(used, most))];
  const known = (images.value ?? []).map(({ name, image, alias = image, built }, at) => {
    // It may be an older one of the same name.
    const isNow = now !== '' && imageName(image) === imageName(now);
    // The first is the default one.
    const choice = isNow ? now : at === 0 ? DEFAULT : alias;
    return [choice, built === false ? t.create.toBuild(name) : name] as const;
  });
  const isKnown = known.some(([choice]) => choice === value);
  const isOther = isTyped || (!isKnown && value !== DEFAULT && (images.value ?? images.error) !== undefined);
  const before = isKnown || isOther ? [] : [[value, value === DEFAULT ? t.create.builtin : imageName(value)] as const];
  const choose = (to: string) => {
    setTyped(to === OTHER);
    onChange(to === OTHER ? '' : to);
  };
  const type = (to: string) => {
    setTyped(true);
    onChange(to);
  };
  return (
    <div class="two roomy">
      <SelectField
        label={t.create.image}
        hint={[hint, ...held].join(' ')}
        error={isOther ? undefined : error}
        value={isOther ? OTHER : value}
        choices={[...before, ...known, [OTHER, t.create.otherImage]]}
        onChange={choose}
      />
      {isOther && (
        <TextField
          label={t.create.imageName}
          error={error}
          value={value}
          onInput={type}
          placeholder="docker.io/library/debian:12"
          attributes={{ maxLength: 512, autocomplete: 'off' }}
        />
      )}
    </div>
  );
}
