/** On phones: the places that have no room in the bar. */
import { ChevronRight } from 'lucide';
import { ACCESS, PLATFORM, SETTINGS } from '../../core/places.ts';
import { personNow } from '../../core/session.ts';
import { Icon } from '../../parts/icon.tsx';
import { Page } from '../../parts/page.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Rows } from '../../parts/rows.tsx';
import { t } from '../../text/text.ts';

export function More() {
  return (
    <Page title={t.shell.more} narrow>
      <Panel>
        <Rows>
          {[...ACCESS, ...(personNow()?.isAdmin ? PLATFORM : []), SETTINGS].map(({ name, href, icon }) => (
            <li key={href}>
              <a class="row wide what" href={href}>
                <Icon of={icon} size={18} />
                {name}
                <span class="away faint">
                  <Icon of={ChevronRight} />
                </span>
              </a>
            </li>
          ))}
        </Rows>
      </Panel>
    </Page>
  );
}
