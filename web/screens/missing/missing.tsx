/** An address that leads nowhere. */
import { Compass } from 'lucide';
import { LinkButton } from '../../parts/button.tsx';
import { Empty } from '../../parts/note.tsx';
import { Page } from '../../parts/page.tsx';
import { t } from '../../text/text.ts';

export function Missing() {
  return (
    <Page title={t.missing.title} narrow>
      <Empty icon={Compass} title={t.missing.lead}>
        <p>{t.missing.why}</p>
        <LinkButton href="/containers" kind="main">
          {t.missing.back}
        </LinkButton>
      </Empty>
    </Page>
  );
}
