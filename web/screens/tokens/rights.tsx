/** Rights as boxes to tick, with what comes of them: in a sentence, and as the scopes that are sent. */
import { personNow } from '../../core/session.ts';
import { containers } from '../../live/live.ts';
import { Code } from '../../parts/copy.tsx';
import { Check, SelectField } from '../../parts/field.tsx';
import { Summary } from '../../parts/summary.tsx';
import { t } from '../../text/text.ts';
import { AREAS, type RightsDraft, rightsSentence, scopesFrom } from './scopes.ts';

interface RightsFieldProps {
  readonly rights: RightsDraft;
  readonly onChange: (rights: RightsDraft) => void;
}

export function RightsField({ rights, onChange }: RightsFieldProps) {
  const toggle = (area: string, action: string, isOn: boolean) => {
    const before = rights.actions[area] ?? [];
    const actions = isOn ? [...before, action] : before.filter((one) => one !== action);
    onChange({ ...rights, actions: { ...rights.actions, [area]: actions } });
  };
  return (
    <fieldset class="field">
      <legend>{t.tokens.scopes}</legend>
      <div class="stack rights">
        {AREAS.map(({ area, actions }) => (
          <fieldset key={area}>
            <legend>{t.tokens.areas[area]}</legend>
            <div class="actions">
              {actions.map((action) => (
                <Check
                  key={action}
                  label={action}
                  checked={rights.actions[area]?.includes(action) ?? false}
                  onChange={(isOn) => toggle(area, action, isOn)}
                />
              ))}
            </div>
          </fieldset>
        ))}
        <WhichContainer rights={rights} onChange={onChange} />
        <InWords rights={rights} />
      </div>
    </fieldset>
  );
}

function WhichContainer({ rights, onChange }: RightsFieldProps) {
  const { container } = rights;
  const own = (containers.value ?? []).map(({ id, name }) => [id, name] as const);
  const isGone = container !== '' && !own.some(([id]) => id === container);
  return (
    <SelectField
      label={t.tokens.which}
      value={container}
      choices={[['', t.tokens.allContainers], ...own, ...(isGone ? [[container, container] as const] : [])]}
      onChange={(chosen) => onChange({ ...rights, container: chosen })}
    />
  );
}

function InWords({ rights }: { readonly rights: RightsDraft }) {
  const scopes = scopesFrom(rights, personNow()?.userId ?? '');
  const nameOf = (id: string) => containers.value?.find((one) => one.id === id)?.name ?? id;
  return (
    <>
      <p class="small dim" aria-live="polite">
        {rightsSentence(rights, nameOf)}
      </p>
      {Object.keys(scopes).length > 0 && (
        <details class="command">
          <Summary>{t.tokens.json}</Summary>
          <div class="lines">
            <Code text={JSON.stringify(scopes, undefined, 1)} what={t.tokens.theScopes} />
          </div>
        </details>
      )}
    </>
  );
}
