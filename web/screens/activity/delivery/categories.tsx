/** Which notifications are sent: all, or those of some categories. */
import { Check, RadioCards } from '../../../parts/field.tsx';
import { t } from '../../../text/text.ts';

/** The categories that the platform itself uses; operators and programs may use others. */
const KNOWN = ['compute', 'storage', 'networking', 'auth', 'webhooks'] as const;

/** A choice; `undefined` as long as it is all. */
export type ChosenCategories = readonly string[] | undefined;

/** As the platform has them: none stands for all. */
export function chosenOf(categories: readonly string[]): ChosenCategories {
  return categories.length === 0 ? undefined : categories;
}

/** `about containers, hostnames`. */
export function categoriesText(categories: readonly string[]): string {
  return categories.length === 0 ? t.delivery.everything : t.delivery.about(categories.map(categoryName).join(', '));
}

interface CategoriesFieldProps {
  readonly chosen: ChosenCategories;
  readonly onChange: (chosen: ChosenCategories) => void;
}

export function CategoriesField({ chosen, onChange }: CategoriesFieldProps) {
  const all = [...new Set([...KNOWN, ...(chosen ?? [])])];
  const toggle = (category: string, isOn: boolean) =>
    onChange(all.filter((one) => (one === category ? isOn : chosen?.includes(one))));
  return (
    <div class="stack tight">
      <RadioCards
        label={t.delivery.which}
        value={chosen === undefined ? 'all' : 'some'}
        choices={[
          ['all', t.delivery.all, t.delivery.allHint],
          ['some', t.delivery.some, t.delivery.someHint],
        ]}
        onChange={(value) => onChange(value === 'all' ? undefined : [])}
      />
      {chosen !== undefined && (
        <fieldset class="categories">
          <legend class="sr">{t.delivery.which}</legend>
          {all.map((category) => (
            <Check
              key={category}
              label={capital(categoryName(category))}
              checked={chosen.includes(category)}
              onChange={(isOn) => toggle(category, isOn)}
            />
          ))}
        </fieldset>
      )}
      {chosen?.length === 0 && <p class="faint tiny">{t.delivery.noneChosen}</p>}
    </div>
  );
}

/** Why a form with this choice cannot be sent yet. */
export function reasonOf(chosen: ChosenCategories): string | undefined {
  return chosen?.length === 0 ? t.delivery.noneChosen : undefined;
}

function capital(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

/** `containers` for `compute`. */
export function categoryName(category: string): string {
  const known = KNOWN.find((one) => one === category);
  return known === undefined ? category : t.delivery.categories[known];
}
