/** What leads nowhere: an address of no screen, and one of what is not there for whoever asks. */
import { Compass, type IconNode } from 'lucide';
import { LinkButton } from '../../parts/button.tsx';
import { Empty } from '../../parts/note.tsx';
import { Page } from '../../parts/page.tsx';
import { t } from '../../text/text.ts';

interface DeadEndProps {
  readonly title: string;
  /** The screen above this one. */
  readonly up?: readonly [name: string, href: string];
  readonly icon: IconNode;
  readonly lead: string;
  readonly why: string;
}

export function DeadEnd({ icon, lead, why, ...page }: DeadEndProps) {
  return (
    <Page {...page} narrow>
      <Empty icon={icon} title={lead} lead={why}>
        <LinkButton href="/containers" kind="main">
          {t.missing.back}
        </LinkButton>
      </Empty>
    </Page>
  );
}

export function Missing() {
  return <DeadEnd title={t.missing.title} icon={Compass} lead={t.missing.lead} why={t.missing.why} />;
}
